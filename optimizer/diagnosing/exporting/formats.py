"""The formats in which a diagnosis leaves the house, by name. A format is one entry of `FORMATS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from optimizer.diagnosing.diagnosis import Diagnosis
from optimizer.diagnosing.exporting import markdown, sarif


@dataclass(frozen=True)
class Format:
    """`write` takes the diagnosis, and where the diagnosed file lies within its repository ("" for its root)."""

    name: str
    title: str
    media_type: str
    suffix: str
    write: Callable[[Diagnosis, str], str]


FORMATS = {
    one.name: one
    for one in (
        Format("json", "JSON", "application/json", ".json", lambda answer, _: answer.model_dump_json(indent=2)),
        Format("sarif", "SARIF 2.1.0", "application/sarif+json", ".sarif", sarif.write),
        Format("markdown", "Markdown", "text/markdown; charset=utf-8", ".md", lambda answer, _: markdown.write(answer)),
    )
}


def export(answer: Diagnosis, format: str, *, folder: str = "") -> str:
    """Raises KeyError where `FORMATS` has no such name. `folder`: where the diagnosed module lies in its repository."""
    return FORMATS[format].write(answer, folder)
