"""The core app; loading it registers the system checks."""

from __future__ import annotations

from django.apps import AppConfig


class CoreConfig(AppConfig):
    name = "fuseworks.core"
    label = "core"

    def ready(self) -> None:
        from fuseworks.core import checks  # noqa: F401  (importing registers)
