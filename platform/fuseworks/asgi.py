"""The ASGI application: `uvicorn fuseworks.asgi:application`."""

from __future__ import annotations

import os
import warnings

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fuseworks.settings.development")
# WhiteNoise reads files synchronously; ours are a few kilobytes out of the page cache, so the loop may wait for them.
warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous iterators")
django.setup(set_prefix=False)

from fuseworks.core.streaming import Handler  # noqa: E402  (Django first)

application = Handler()
