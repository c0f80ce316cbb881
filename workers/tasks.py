"""The one task: thin. It reads the message, calls `work`, and is the one place where what `work` raises is logged."""

from __future__ import annotations

import logging
from typing import Any

from pydantic import ValidationError

from workers.api import Stale
from workers.celery_app import app
from workers.duty import duty
from workers.http import ApiError
from workers.messages import TASK, RunMessage
from workers.work import work

log = logging.getLogger(__name__)


@app.task(name=TASK, ignore_result=True)
def run(*arguments: Any, **fields: Any) -> None:
    """`fields` are those of RunMessage. Nothing that comes by message ends the worker, and nothing is tried again here:
    a run that was not finished comes back by its row."""
    message = read(arguments, fields)
    if message is None:
        return
    try:
        work(message, duty.settings, stopping=duty.is_stopping, before_leaving=duty.leave)
    except Stale as stale:
        log.info("run %s, attempt %d is not this worker's (any more): %s", message.run_id, message.attempt, stale)
    except ApiError as error:
        log.error("run %s, attempt %d is left to its lease: %s", message.run_id, message.attempt, error)
    except Exception:
        log.exception("run %s, attempt %d is left to its lease", message.run_id, message.attempt)


def read(arguments: tuple[Any, ...], fields: dict[str, Any]) -> RunMessage | None:
    """None for a message that makes no sense, which is logged without its values: one of them is a token."""
    if arguments:
        log.error("a message is dropped: it has %d arguments without names", len(arguments))
        return None
    unknown = sorted(set(fields) - set(RunMessage.model_fields))
    if unknown:
        log.info("fields that this version does not know are ignored: %s", ", ".join(unknown)[:200])
    try:
        return RunMessage.model_validate(fields)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['type']}" for e in error.errors(include_input=False))
        log.error("a message is dropped: %s", wrong)
        return None
