"""A server behind HTTPS. Everything that differs between installations comes from the environment:

required are `DATABASE_URL`, `REDIS_URL`, `FUSEWORKS_SECRET_KEY`, `FUSEWORKS_WORKER_TOKEN` and `FUSEWORKS_HOSTS`;
`FUSEWORKS_BEHIND_PROXY=1` when a proxy in front ends TLS and sets X-Forwarded-Proto, `FUSEWORKS_PLAIN_HTTP=1` only for
a closed network without TLS.
"""

from __future__ import annotations

from fuseworks.settings.base import *  # noqa: F403
from fuseworks.settings.environment import flag, required, words

SECRET_KEY = required("FUSEWORKS_SECRET_KEY", "at least 50 random characters, the same on every web process")
required("DATABASE_URL", "postgresql://user:password@host:5432/database")
required("REDIS_URL", "the broker, redis://:password@host:6379/0")
required("FUSEWORKS_WORKER_TOKEN", "a long random text, the same on web and workers")
required("FUSEWORKS_HOSTS", "the host names under which this site is reached, separated by commas")
ALLOWED_HOSTS = words("FUSEWORKS_HOSTS")

_tls = not flag("FUSEWORKS_PLAIN_HTTP")
SECURE_SSL_REDIRECT = _tls
# Health checks of orchestrators and workers come over plain HTTP from inside; a proxy passes TLS only.
SECURE_REDIRECT_EXEMPT = [r"^health/$", r"^api/v1/worker/"]
SECURE_HSTS_SECONDS = 31_536_000 if _tls else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = _tls
SECURE_HSTS_PRELOAD = _tls
SESSION_COOKIE_SECURE = _tls
CSRF_COOKIE_SECURE = _tls
if flag("FUSEWORKS_BEHIND_PROXY"):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
