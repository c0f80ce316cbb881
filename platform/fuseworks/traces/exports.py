"""A diagnosis as a file: what pages and the API call each format. What a format says is the optimizer's matter, and
which there are: a new one there needs a title here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from django.utils.translation import gettext_lazy as _

from optimizer.diagnosing.exporting import FORMATS as WRITTEN
from optimizer.diagnosing.exporting import export
from optimizer.result import Diagnosis

TITLES = {
    "json": _("facts and findings"),
    "sarif": _("for code hosts"),
    "markdown": _("a report to read"),
}


class Written(Protocol):
    def __call__(self, answer: Diagnosis) -> str: ...


@dataclass(frozen=True)
class ExportFormat:
    """`written` is the optimizer's; `suffix` ends the file's name."""

    title: Any
    content_type: str
    suffix: str
    written: Written


FORMATS: dict[str, ExportFormat] = {
    name: ExportFormat(
        TITLES[name], one.media_type.partition(";")[0], one.suffix.lstrip("."), partial(export, format=name)
    )
    for name, one in WRITTEN.items()
}
