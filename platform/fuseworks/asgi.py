"""The ASGI application: `uvicorn fuseworks.asgi:application`."""

from __future__ import annotations

import os
import tempfile
import warnings

from django.conf import settings
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fuseworks.settings.development")
# WhiteNoise reads files synchronously; ours are a few kilobytes out of the page cache, so the loop may wait for them.
warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous iterators")
application = get_asgi_application()
# Django's ASGI handler spools bodies to Python's own temporary folder and heeds no setting: this is the one way to tell
# it. A file there has no name, so that nothing is left of it when this process is killed.
tempfile.tempdir = settings.FILE_UPLOAD_TEMP_DIR or tempfile.tempdir
