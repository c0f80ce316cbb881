"""Which Fuseworks this is."""

from __future__ import annotations

import importlib.metadata


def version() -> str:
    try:
        return importlib.metadata.version("fuseworks")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed: run from its sources)"
