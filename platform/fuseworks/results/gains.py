"""Writes what a run says of predicted gains as rows, and reads those rows. The figures are the document's own."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import QuerySet

from fuseworks.accounts.permissions import Actor
from fuseworks.core.figures import number
from fuseworks.results.models import CheckedGain
from fuseworks.runs import scrub
from fuseworks.runs.models import Run
from optimizer.result import CheckedGain as Told
from optimizer.result import Result

MOST_ROWS = 200  # of one run: there are some fifty rules
MOST_READ = 2000  # of the newest: coverage and bias are counted over these


@dataclass(frozen=True)
class GainQuery:
    """What a reader asks for; every field is a parameter of the address, and empty for all."""

    rule: str = ""
    remedy: str = ""
    target: str = ""


def checked_gains_store(*, run: Run, result: Result) -> list[CheckedGain]:
    """Called in the transaction that ended the run. Intervals that are none (a stranger's worker wrote the document)
    are left out."""
    rows = [_row(run, one) for one in result.checked_gains[:MOST_ROWS] if _is_sound(one)]
    return CheckedGain.objects.bulk_create(rows)


def gains_visible(*, actor: Actor, query: GainQuery | None = None) -> QuerySet[CheckedGain]:
    """Of the runs that the reader may see, newest first."""
    query = query or GainQuery()
    found = CheckedGain.objects.visible_to(actor).select_related("run__version__model", "run__team")
    for name in ("rule", "remedy", "target"):
        if getattr(query, name):
            found = found.filter(**{name: getattr(query, name)})
    return found.order_by("-created_at", "rule", "remedy", "pk")


def _is_sound(told: Told) -> bool:
    ends = [told.predicted.low, told.predicted.high, *([told.realised.gain] if told.realised else [])]
    return all((number(end) or 0.0) > 0 for end in ends) and told.predicted.low <= told.predicted.high


def _row(run: Run, told: Told) -> CheckedGain:
    predicted, realised = told.predicted, told.realised
    uncorrected = predicted.uncorrected or (None, None)
    interval = realised.interval if realised is not None else None
    return CheckedGain(
        run=run,
        rule=scrub.text(told.rule, 80),
        remedy=scrub.text(told.remedy, 300),
        target=run.target,
        predicted_low=predicted.low,
        predicted_high=predicted.high,
        confidence=number(predicted.confidence),
        uncorrected_low=number(uncorrected[0]),
        uncorrected_high=number(uncorrected[1]),
        model=scrub.text(predicted.model, 1000),
        realised=realised.gain if realised is not None else None,
        realised_low=number(interval.low) if interval is not None else None,
        realised_high=number(interval.high) if interval is not None else None,
        evidence=realised.evidence if realised is not None else "",
        measured_on=scrub.text(realised.measured_on, 300) if realised is not None else "",
        reason=scrub.text(told.not_realised_because, 500),
    )
