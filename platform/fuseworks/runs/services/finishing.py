"""The worker's answer: the run's end, told by its result document, and what other apps file of it.

A document that is not valid, or that another app cannot file, ends the run as `errored` with our fault: it is here, and
sending it again would change nothing.
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

from django.db import InterfaceError, OperationalError, transaction
from django.utils import timezone
from pydantic import ValidationError

from fuseworks.core.errors import PlatformError
from fuseworks.runs import scrub
from fuseworks.runs.finished import finished_functions
from fuseworks.runs.models import Attempt, AttemptState, Run, Status
from fuseworks.runs.services import ending
from optimizer.result import Result

log = logging.getLogger(__name__)


def run_finish(*, attempt: Attempt, document: Any, now: datetime | None = None) -> Run:
    """Ends the run as the document says. The same attempt's answer a second time changes nothing.

    Raises `runs:usage:stale` for any other attempt than the run's current one.
    """
    now = now or timezone.now()
    answer = _read(document)
    with transaction.atomic():
        run = ending.locked(attempt)
        if _is_doubled(run, attempt):
            return run
        run = ending.working(attempt)
        worked = ending.worked_s(attempt, now)
        ending.close(attempt, AttemptState.ENDED, now=now)
        if isinstance(answer, PlatformError):
            ending.end_without_result(run, Status.ERRORED, now=now, worked=worked, problem=answer)
        else:
            _file(run, answer, now=now, worked=worked)
    return run


def _is_doubled(run: Run, attempt: Attempt) -> bool:
    return run.is_terminal and run.attempt == attempt.number and attempt.state == AttemptState.ENDED


def _read(document: Any) -> Result | PlatformError:
    try:
        return Result.model_validate(scrub.storable(document))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the document"
        return PlatformError("runs:ours:bad-result", text=f"{place}: {first['msg']}"[:400])
    except scrub.TooDeep as error:
        return PlatformError("runs:ours:bad-result", text=str(error))


def _file(run: Run, result: Result, *, now: datetime, worked: float) -> None:
    problem = result.problem.model_dump(mode="json") if result.problem is not None else None
    try:
        with transaction.atomic():
            ending.end(
                run, Status(result.status.value), now=now, problem=problem, summary=result.summary, worked=worked
            )
            for function in finished_functions():
                function(run, result)
    except (OperationalError, InterfaceError):  # the database itself: nothing is stored, the worker sends it again
        raise
    except Exception as error:
        log.exception("run %s: its result could not be filed", run.pk)
        run.refresh_from_db()
        ours = PlatformError("runs:ours:not-filed", text=type(error).__name__)
        ending.end_without_result(run, Status.ERRORED, now=now, worked=worked, problem=ours)
