"""One pass of the dispatcher: sends waiting runs to targets that have workers free, in fair order.

A message is sent after its attempt is stored. If the process dies in between, nobody claims the attempt, and the reaper
frees the run: at worst a run waits, and never is one lost or worked twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

from django.utils import timezone

from fuseworks.fleet import selectors
from fuseworks.fleet.fair_share import fair_order
from fuseworks.fleet.sender import BrokerDown
from fuseworks.runs.services import attempt_open, attempt_unsend
from workers.messages import RunMessage

Send = Callable[[RunMessage, str], None]
log = logging.getLogger(__name__)


def dispatch(*, send: Send, now: datetime | None = None) -> int:
    """Returns how many messages were sent. Raises BrokerDown when one could not be: its run waits again at once."""
    now = now or timezone.now()
    free = selectors.free_workers(now=now)
    return sum(_dispatch_to(target, count, send, now) for target, count in sorted(free.items()))


def _dispatch_to(target: str, free: int, send: Send, now: datetime) -> int:
    sent = 0
    for run in fair_order(selectors.waiting(target=target, now=now), selectors.load(target=target)):
        if sent == free:
            break
        opened = attempt_open(run_id=run.run_id, now=now)
        if opened is None:  # cancelled a moment ago, or another dispatcher has it
            continue
        try:
            send(opened.message, target)
        except BrokerDown as error:
            attempt_unsend(attempt=opened.attempt, reason=f"not sent: {error}", now=now)
            raise
        log.info("run %s, attempt %d sent to %s", run.run_id, opened.attempt.number, target)
        sent += 1
    return sent
