"""The core app; loading it registers the system checks and makes the folder of forms' files."""

from __future__ import annotations

from pathlib import Path

from django.apps import AppConfig
from django.conf import settings


class CoreConfig(AppConfig):
    name = "fuseworks.core"
    label = "core"

    def ready(self) -> None:
        from fuseworks.core import checks  # noqa: F401  (importing registers)

        if settings.FILE_UPLOAD_TEMP_DIR:  # without the folder a check of Django's own would stop the site
            Path(settings.FILE_UPLOAD_TEMP_DIR).mkdir(mode=0o700, parents=True, exist_ok=True)
