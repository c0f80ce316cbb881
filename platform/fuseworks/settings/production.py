"""A server behind HTTPS. Everything that differs between installations comes from the environment:

`FUSEWORKS_SECRET_KEY` and `FUSEWORKS_HOSTS` (required), `FUSEWORKS_BEHIND_PROXY=1` when a proxy in front ends TLS
and sets X-Forwarded-Proto, `FUSEWORKS_PLAIN_HTTP=1` only for a closed network without TLS.
"""

from __future__ import annotations

from fuseworks.settings.base import *  # noqa: F403
from fuseworks.settings.environment import flag, required, words

SECRET_KEY = required("FUSEWORKS_SECRET_KEY", "at least 50 random characters, the same on every web process")
required("FUSEWORKS_HOSTS", "the host names under which this site is reached, separated by commas")
ALLOWED_HOSTS = words("FUSEWORKS_HOSTS")

_tls = not flag("FUSEWORKS_PLAIN_HTTP")
SECURE_SSL_REDIRECT = _tls
# Health checks of orchestrators come over plain HTTP from inside.
SECURE_REDIRECT_EXEMPT = [r"^health/$"]
SECURE_HSTS_SECONDS = 31_536_000 if _tls else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = _tls
SECURE_HSTS_PRELOAD = _tls
SESSION_COOKIE_SECURE = _tls
CSRF_COOKIE_SECURE = _tls
if flag("FUSEWORKS_BEHIND_PROXY"):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
