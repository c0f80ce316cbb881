"""The runs app; loading it finds what other apps do when a run ends."""

from __future__ import annotations

from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "fuseworks.runs"
    label = "runs"

    def ready(self) -> None:
        from fuseworks.runs import errors, finished  # noqa: F401  (errors: importing registers)

        finished.load()
