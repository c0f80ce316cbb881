"""The test suite: no debug pages, nothing written outside of the tests' own folders."""

from __future__ import annotations

from fuseworks.settings.base import *  # noqa: F403

ALLOWED_HOSTS = ["testserver", "localhost", "127.0.0.1"]
SECRET_KEY = "only-for-tests-and-never-a-secret-anywhere"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # Argon2 takes its time on purpose
EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
PUBLIC_URL = "http://testserver"
AXES_ENABLED = False
FILE_UPLOAD_TEMP_DIR = None
STATIC_ROOT = None  # type: ignore[assignment]  # files are served from where they lie
