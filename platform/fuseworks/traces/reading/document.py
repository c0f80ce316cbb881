"""The diagnosis that a run left, and where on the site its parts are."""

from __future__ import annotations

from fuseworks.core.errors import PlatformError
from fuseworks.results.reading.document import parse
from fuseworks.results.selectors import result_of, result_or_404
from fuseworks.runs.models import Run
from optimizer.result import Diagnosis, Finding


def diagnosis_of(run: Run) -> Diagnosis | None:
    """None while there is none, and of a run that did not succeed. Raises PlatformError for what cannot be read."""
    stored = result_of(run)
    return parse(stored.document).diagnosis if stored is not None else None


def diagnosis_or_404(run: Run) -> Diagnosis:
    """Raises PlatformError (404): `results:usage:none-yet`, `results:usage:none`."""
    result_or_404(run)
    found = diagnosis_of(run)
    if found is None:
        raise PlatformError("results:usage:none", status=run.get_status_display().lower(), run_id=run.pk)
    return found


def finding_or_404(diagnosis: Diagnosis, rule: str) -> tuple[int, Finding]:
    """Its place in the ranking, from 1, and itself: a rule tells of a job once."""
    for place, finding in enumerate(diagnosis.findings, 1):
        if finding.rule == rule:
            return place, finding
    raise PlatformError("core:usage:not-found", what="finding")
