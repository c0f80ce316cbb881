"""Findings as rows of a list, and what a reader asks to see of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _

from fuseworks.core.numbers import whole_number
from fuseworks.traces.reading.figures import entries, figure
from fuseworks.traces.reading.parts import KINDS, kind_of
from optimizer.result import Diagnosis, Finding, TracedRank

SEVERITIES: dict[str, tuple[str, Any]] = {
    "high": ("red", _("high")),
    "medium": ("yellow", _("medium")),
    "low": ("blue", _("low")),
    "info": ("secondary", _("info")),
}
MOST_BARS = 12


@dataclass(frozen=True)
class Row:
    """`place` in the ranking, from 1. `rank`: where it costs most; None where one trace was read."""

    place: int
    finding: Finding
    kind: str
    rank: TracedRank | None

    @property
    def severity(self) -> Any:
        return SEVERITIES[self.finding.severity][1]

    @property
    def colour(self) -> str:
        return SEVERITIES[self.finding.severity][0]

    @property
    def kind_in_words(self) -> Any:
        return KINDS[self.kind]


@dataclass(frozen=True)
class Asked:
    """Of the address; what makes no sense there asks for nothing. `rank`: the number of the trace among those read."""

    severity: str = ""
    kind: str = ""
    rank: int | None = None

    @classmethod
    def of(cls, query: Mapping[str, str], diagnosis: Diagnosis) -> Asked:
        severity, kind = query.get("severity", ""), query.get("kind", "")
        rank = whole_number(query.get("rank", ""))
        return cls(
            severity if severity in SEVERITIES else "",
            kind if kind in KINDS else "",
            rank if rank is not None and rank < len(diagnosis.ranks) else None,
        )

    @property
    def is_filtered(self) -> bool:
        return bool(self.severity or self.kind) or self.rank is not None


def rows(diagnosis: Diagnosis) -> list[Row]:
    """All, in the order of what mending gives back."""
    by_name = {rank.trace: rank for rank in diagnosis.ranks} if len(diagnosis.ranks) > 1 else {}
    return [
        Row(place, finding, kind_of(finding), by_name.get(str(finding.evidence.get("trace"))))
        for place, finding in enumerate(diagnosis.findings, 1)
    ]


def fitting(found: Sequence[Row], asked: Asked, diagnosis: Diagnosis) -> list[Row]:
    trace = diagnosis.ranks[asked.rank].trace if asked.rank is not None else None
    return [
        row
        for row in found
        if asked.severity in ("", row.finding.severity)
        and asked.kind in ("", row.kind)
        and (trace is None or row.rank is None or row.rank.trace == trace)
    ]


@dataclass(frozen=True)
class Evidence:
    """`bars`: the entries of a table of figures, each with its share of the longest; else `text`."""

    name: str
    label: str
    text: str
    bars: list[tuple[str, str, float]]


def evidence(finding: Finding) -> list[Evidence]:
    """What the rule saw, in its order; what it left empty is left out."""
    found = []
    for name, value in finding.evidence.items():
        bars = _bars(name, value)
        text = "" if bars else figure(name, value)
        if bars or text:
            found.append(Evidence(name, name.replace("_", " "), text, bars))
    return found


def _bars(name: str, value: Any) -> list[tuple[str, str, float]]:
    if not isinstance(value, Mapping) or not value:
        return []
    if not all(isinstance(one, (int, float)) and not isinstance(one, bool) and one >= 0 for one in value.values()):
        return []
    largest = max(value.values()) or 1
    return [(key, figure(name, one), round(one / largest, 4)) for key, one in entries(value)[:MOST_BARS]]
