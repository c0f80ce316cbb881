"""A checkout on one's own machine: debug pages, this machine's names only, a secret drawn on first use."""

from __future__ import annotations

from fuseworks.settings.base import *  # noqa: F403
from fuseworks.settings.base import ROOT
from fuseworks.settings.environment import development_secret

DEBUG = True
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
SECRET_KEY = development_secret(ROOT / ".fuseworks")
STATIC_ROOT = None  # type: ignore[assignment]  # files are served from where they lie
