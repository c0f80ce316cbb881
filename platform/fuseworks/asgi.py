"""The ASGI application: `uvicorn fuseworks.asgi:application`."""

from __future__ import annotations

import os
import warnings

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fuseworks.settings.development")
# WhiteNoise reads files synchronously; ours are a few kilobytes out of the page cache, so the loop may wait for them.
warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous iterators")
application = get_asgi_application()
