"""Whether results of different runs may stand beside each other, and what differs when they may not.

They may when the workload, the conditions' fingerprint and the precision of the winners are equal. Even then they were
not measured together: what follows from two of them is derived, and is called so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from fuseworks.core import figures
from fuseworks.results.reading.conditions import Difference, differences
from fuseworks.results.reading.contenders import contenders
from fuseworks.results.reading.document import parse
from fuseworks.results.reading.headline import equal_settings
from fuseworks.results.selectors import result_or_404
from fuseworks.runs.models import Run
from optimizer.result import Comparison, Performance, Result, Verdict


@dataclass(frozen=True)
class Entry:
    """One run among those compared."""

    run: Run
    result: Result

    @property
    def judged(self) -> Comparison | None:
        return equal_settings(self.result)

    @property
    def tells(self) -> bool:
        return self.result.verdict not in (None, Verdict.CANNOT_TELL)

    @property
    def performance(self) -> Performance | None:
        """Of the winner."""
        return next((c.performance for c in contenders(self.result) if c.role == "winner"), None)


@dataclass(frozen=True)
class Derived:
    """Speedup of `run` / speedup of `base`: an arithmetic of two measurements, no measurement. There is none of a run
    that cannot tell: a quotient of unproven figures looks like more than it is."""

    base: Run
    run: Run
    ratio: float


@dataclass(frozen=True)
class Beside:
    """`differences` is empty when the runs are comparable; `derived` is empty when they are not."""

    entries: list[Entry]
    differences: list[Difference]
    derived: list[Derived]

    @property
    def best_label(self) -> str:
        """Over the column of what each run found: what is not faster is not called a winner."""
        all_won = all(entry.result.verdict == Verdict.FASTER for entry in self.entries)
        return _("Winner") if all_won else _("Best candidate")

    @property
    def some_cannot_tell(self) -> bool:
        return not all(entry.tells for entry in self.entries)

    @property
    def comparable(self) -> bool:
        return not self.differences


def beside(runs: Sequence[Run]) -> Beside:
    """`runs` as `selectors.runs_compared` gives them. Raises PlatformError for a document that cannot be read."""
    entries = [Entry(run, parse(result_or_404(run).document)) for run in runs]
    found = what_differs([entry.result for entry in entries])
    derived = []
    first = entries[0]
    if not found and first.result.speedup and first.tells:
        derived = [
            Derived(first.run, one.run, one.result.speedup / first.result.speedup)
            for one in entries[1:]
            if one.result.speedup is not None and one.tells
        ]
    return Beside(entries, found, derived)


def what_differs(results: Sequence[Result]) -> list[Difference]:
    """Everything that stands in the way, with the value of each result: that one judged nothing, or all the rest."""
    if not all(_judged(one) for one in results):  # what else differs is of no use to anybody then
        return [Difference("result", [_("judged") if _judged(one) else _("nothing judged") for one in results])]
    found = differences([_workload(one) for one in results], "workload.")
    prints = [one.conditions.fingerprint if one.conditions else "" for one in results]
    if len(set(prints)) > 1 or not prints[0]:
        told = differences([one.conditions.fixed if one.conditions else None for one in results], "conditions.")
        found += told or [Difference("conditions.fingerprint", [one or figures.MISSING for one in prints])]
    precisions = [_precision(one) for one in results]
    if len(set(precisions)) > 1:
        found.append(Difference("precision", precisions))
    return found


def _judged(result: Result) -> bool:
    """Against its own baseline: a `compare` run has none."""
    return result.speedup is not None and result.purpose != "compare"


def _workload(result: Result) -> dict[str, object]:
    return result.workload.model_dump(mode="json", by_alias=True, exclude_none=True) if result.workload else {}


def _precision(result: Result) -> str:
    """Of the winner: speeds are compared within one precision."""
    performance = next((c.performance for c in contenders(result) if c.role == "winner"), None)
    return (performance.inference_precision if performance else None) or figures.MISSING
