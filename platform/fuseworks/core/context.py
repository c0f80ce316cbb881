"""What every page's template may use: the menu, the version, the teams of the reader."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

import fuseworks
from fuseworks.core.discovery import pages


def site(request: HttpRequest) -> dict[str, Any]:
    menu = sorted((p for p in pages() if p.menu is not None), key=lambda p: p.menu or 0)
    return {"menu": menu, "fuseworks_version": fuseworks.__version__}
