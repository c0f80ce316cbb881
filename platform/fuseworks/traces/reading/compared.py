"""Two traces beside each other: the rows that explain most of the difference, each with a bar for its share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.utils.translation import gettext_lazy as _
from pydantic import BaseModel

from optimizer.result import Diagnosis

MOST_ROWS = 20
STATUSES: dict[str, tuple[str, Any]] = {
    "same": ("secondary", _("same")),
    "changed": ("blue", _("changed")),
    "added": ("yellow", _("added")),
    "removed": ("purple", _("removed")),
}


@dataclass(frozen=True)
class Compared:
    """One operation, cause of idle time or kernel. `bar`: its share of the longest one. `is_slower`: than before."""

    row: Any
    bar: float
    is_slower: bool

    @property
    def status(self) -> Any:
        return STATUSES[self.row.status][1]

    @property
    def colour(self) -> str:
        return STATUSES[self.row.status][0]


@dataclass(frozen=True)
class Table:
    name: Literal["operations", "kernels"]
    rows: list[Compared]
    left_out: int


def tables(diagnosis: Diagnosis) -> list[Table]:
    """By operation; and by kernel where there is a GPU. Empty where nothing was compared."""
    found = diagnosis.comparison
    if found is None:
        return []
    both = [_table("operations", found.rows)]
    return both + ([_table("kernels", found.kernels)] if found.by == "gpu" else [])


def _table(name: Literal["operations", "kernels"], rows: Sequence[BaseModel]) -> Table:
    differing: list[Any] = [row for row in rows if getattr(row, "difference_ms")]  # noqa: B009
    largest = max((abs(row.difference_ms) for row in differing), default=0.0) or 1.0
    shown = [
        Compared(row, round(abs(row.difference_ms) / largest, 4), row.difference_ms > 0)
        for row in differing[:MOST_ROWS]
    ]
    return Table(name, shown, len(differing) - len(shown))
