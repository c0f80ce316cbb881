"""The WSGI application, for servers that know no ASGI."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fuseworks.settings.development")
application = get_wsgi_application()
