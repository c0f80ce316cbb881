"""What changes runs. People create, cancel and retry them; workers claim, report on and finish attempts; the dispatcher
opens attempts and reaps those that fell silent.

Every change locks the run's row first and the attempt's second, so that two of them wait for one another and never
deadlock. An attempt that is not the run's current one gets PlatformError `runs:usage:stale`.
"""

from __future__ import annotations

from fuseworks.runs.services.artifacts import ARTIFACTS, ARTIFACTS_PREFIX, artifact_store
from fuseworks.runs.services.attempts import (
    Opened,
    attempt_claim,
    attempt_give_up,
    attempt_heartbeat,
    attempt_open,
    attempt_unclaimed,
    attempt_unsend,
)
from fuseworks.runs.services.creating import run_cancel, run_create, run_retry
from fuseworks.runs.services.events import events_append
from fuseworks.runs.services.files import files_drop
from fuseworks.runs.services.finishing import run_finish
from fuseworks.runs.services.reaping import Reaped, reap
from fuseworks.runs.services.uninspected import waiting_end

__all__ = [
    "ARTIFACTS",
    "ARTIFACTS_PREFIX",
    "Opened",
    "Reaped",
    "artifact_store",
    "attempt_claim",
    "attempt_give_up",
    "attempt_heartbeat",
    "attempt_open",
    "attempt_unclaimed",
    "attempt_unsend",
    "events_append",
    "files_drop",
    "reap",
    "run_cancel",
    "run_create",
    "run_finish",
    "run_retry",
    "waiting_end",
]
