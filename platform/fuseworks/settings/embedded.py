"""The embedded default of `make run`: this machine's names only, no debug pages, a secret drawn on first use."""

from __future__ import annotations

from fuseworks.settings.base import *  # noqa: F403
from fuseworks.settings.base import STATE
from fuseworks.settings.environment import development_secret, words

ALLOWED_HOSTS = words("FUSEWORKS_HOSTS") or ["localhost", "127.0.0.1", "[::1]"]
SECRET_KEY = development_secret(STATE)
STATIC_ROOT = None  # type: ignore[assignment]  # files are served from where they lie
EMBEDDED = True
