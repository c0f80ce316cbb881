"""One attempt at one run, from the claim to the answer.

Whoever finds that the attempt is over (stale, or its lease lost) stops everything, cleans up and says no more: another
attempt has the run. The worker's own failure gives the run back to the queue; everything else ends in a result.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from optimizer.errors import FuseworksError
from optimizer.result import Event, Result, RunStatus
from optimizer.spec import Purpose
from workers import errors as _errors  # noqa: F401  its ids must be in the catalogue
from workers import noise_floor
from workers.answer import answer, artifacts, made
from workers.api import Claim, Stale, WorkerApi
from workers.coordinator import BrokenEvents, Coordinator
from workers.device_locks import StoppedWaiting, device_lock, shares_device
from workers.http import ApiError, GoOn, Http, Refused, Unreachable
from workers.keeper import LEASE_RAN_OUT
from workers.lease import Lease, Verdict
from workers.messages import RunMessage
from workers.order import place_order
from workers.reporter import Reporter
from workers.scratch import PASS_THROUGH, scratch_folder
from workers.settings import Settings

STOPPING = "worker:ours:stopping"
TICK_S, POLITE_S = 0.2, 15.0
CLAIM_TRIES_S, LAST_WORD_S = 30.0, 5.0
STORE_TRIES_S = 600.0  # for one file, beside the time that a try takes
# Ended so, the coordinator may write what it has: the run ends with it.
KEEPS_WHAT_IT_HAS = frozenset({Verdict.CANCELLED, Verdict.TIMED_OUT})
log = logging.getLogger(__name__)


def work(
    message: RunMessage,
    settings: Settings,
    *,
    stopping: Callable[[], bool] = lambda: False,
    before_leaving: Callable[[], None] = lambda: None,
) -> None:
    """`stopping` says that this worker is to end: the run is given back at once, after `before_leaving` was called.

    Raises Stale when the attempt is over, Unreachable when the platform was silent for too long.
    """
    with Http(str(message.api), message.token.get_secret_value()) as http:
        api = WorkerApi(message, http)
        try:
            claim = api.claim(settings.name, go_on=_for(CLAIM_TRIES_S))
        except ValidationError as error:
            text = f"the claim's answer: {error.errors(include_input=False, include_url=False)[:3]}"
            return _give_up(api, FuseworksError("worker:ours:unexpected", text=text), _for(CLAIM_TRIES_S))
        log.info("run %s, attempt %d: %s on %s", message.run_id, message.attempt, claim.purpose, claim.target)
        with Lease(api.heartbeat, lease_s=claim.lease_s, time_left_s=claim.time_left_s) as lease:
            _Attempt(api, claim, lease, settings, stopping, before_leaving)()
    return None


def _for(seconds: float) -> GoOn:
    until = time.monotonic() + seconds
    return lambda: time.monotonic() < until


def _give_up(api: WorkerApi, error: FuseworksError, go_on: GoOn) -> None:
    log.error("the run is given back: %s", error)
    api.give_up(str(error), stopping=error.id == STOPPING, go_on=go_on)


@dataclass(frozen=True)
class _Attempt:
    api: WorkerApi
    claim: Claim
    lease: Lease
    settings: Settings
    stopping: Callable[[], bool]
    before_leaving: Callable[[], None]

    def __call__(self) -> None:
        holds = self.lease.holds
        try:
            with scratch_folder(self.settings.scratch) as scratch:
                self._in(scratch)
        except ApiError as error:
            if isinstance(error, (Stale, Unreachable)):
                raise
            _give_up(self.api, FuseworksError("worker:ours:unexpected", text=str(error)), holds)
        except FuseworksError as error:
            if self.stopping():
                self.before_leaving()
            soon = _for(LAST_WORD_S)
            _give_up(self.api, error, lambda: holds() and (soon() or not self.stopping()))
        except OSError as error:
            folder = str(self.settings.scratch)
            _give_up(self.api, FuseworksError("worker:ours:no-room", text=str(error), folder=folder), holds)
        except Exception as error:
            log.exception("unforeseen")
            text = f"{type(error).__name__}: {error}"
            _give_up(self.api, FuseworksError("worker:ours:unexpected", text=text[:500]), holds)

    def _in(self, scratch: Path) -> None:
        holds = self.lease.holds
        with Reporter(lambda first, events: self.api.events(first, events, go_on=holds), self.lease) as reporter:
            result = self._result(scratch, reporter)
            self.lease.work_is_done()  # handing it in may take its time
        for path in artifacts(scratch / "out", scratch / "log.txt"):
            self._store(path, result)
        try:
            self.api.finish(result, go_on=holds)
        except Refused as error:
            log.error("the platform refuses the result: %s", error)
            refused = FuseworksError("worker:ours:result-refused", text=str(error))
            result = made(self.claim.purpose, RunStatus.ERRORED, refused)
            self.api.finish(result, go_on=holds)
        log.info("told the platform: %s", result.status)
        noise_floor.remember(self.settings.scratch, self.settings.name, result)

    def _store(self, path: Path, result: Result) -> None:
        """One that the platform has no room for, or cannot take for a long while although it answers heartbeats, is
        told of in the result, which must not wait for ever. Raises Stale, and Unreachable when the lease is lost."""
        soon = _for(STORE_TRIES_S)
        try:
            self.api.artifact(path, go_on=lambda: self.lease.holds() and soon())
        except (Refused, Unreachable) as error:
            if not self.lease.holds():
                raise
            log.error("%s is not stored: %s", path.name, error)
            result.notes.append(f"{path.name} could not be stored: {error}")

    def _result(self, scratch: Path, reporter: Reporter) -> Result:
        """Raises Stale when the attempt is over, FuseworksError when the run is to be given back."""
        out, log_file = scratch / "out", scratch / "log.txt"
        try:
            coordinator = self._started(scratch, out, log_file, reporter)
        except (StoppedWaiting, Unreachable):
            reason = self._why_not()
            if reason is None:
                raise
            self._leave_if_over(reason)
            return answer(out, log_file, purpose=self.claim.purpose, code=0, verdict=reason)
        try:
            reason = self._followed(coordinator, reporter)
        except BrokenEvents as error:
            log.error("%s", error)
            broken = FuseworksError("worker:ours:coordinator-died", how=str(error))
            return made(self.claim.purpose, RunStatus.ERRORED, broken)
        finally:
            self.lease.on_renewed = None
            coordinator.close()
        self._leave_if_over(reason)
        code = coordinator.code
        assert code is not None
        if reason is None and code == LEASE_RAN_OUT:
            raise FuseworksError("worker:ours:frozen")
        return answer(out, log_file, purpose=self.claim.purpose, code=code, verdict=reason)

    def _started(self, scratch: Path, out: Path, log_file: Path, reporter: Reporter) -> Coordinator:
        """Once the device is free and the files are here. Raises StoppedWaiting, and as `place_order`."""
        claim = self.claim

        def go_on() -> bool:
            return self._why_not() is None

        # a prediction's GPU is not here: what it takes is this worker's own device, on which others may measure
        target = self.settings.target if claim.purpose == Purpose.EXPLAIN else claim.target

        def waiting() -> None:
            text = f"Waiting for the device {target}: another run measures on it"
            reporter.add(Event(kind="log", at_s=0.0, budget_s=claim.policy.budget_s, message=text))

        shared = shares_device(claim.purpose)
        device = self.settings.device if target == self.settings.target else target
        with device_lock(self.settings.device_locks, device, shared=shared, go_on=go_on, on_wait=waiting) as lock:
            self.lease.work_begins()
            spec = place_order(claim, self.api, scratch, out=out, go_on=go_on)
            temporary = scratch / "tmp"
            temporary.mkdir()
            temporary.chmod(PASS_THROUGH)
            lease_s = self.lease.lease_s
            command = self.settings.coordinator
            return Coordinator(command, spec, log_file=log_file, temporary=temporary, lease_s=lease_s, lock_fd=lock)

    def _followed(self, coordinator: Coordinator, reporter: Reporter) -> Verdict | None:
        """Until it ends by itself (None), or until there is a reason to end it, which is done. Raises BrokenEvents."""
        self.lease.on_renewed = coordinator.renew
        while coordinator.code is None:
            for event in coordinator.events(TICK_S):
                reporter.add(event)
            reason = self._why_not()
            if reason is not None:
                log.info("the coordinator is ended: %s", reason)
                for event in coordinator.stop(POLITE_S if reason in KEEPS_WHAT_IT_HAS else 0.0):
                    reporter.add(event)
                return reason
        for event in coordinator.events(0.0):
            reporter.add(event)
        return None

    def _why_not(self) -> Verdict | None:
        """Why the work must not go on."""
        return self.lease.verdict or (Verdict.STOPPED if self.stopping() else None)

    def _leave_if_over(self, reason: Verdict | None) -> None:
        if reason in (Verdict.STALE, Verdict.LOST):
            raise Stale(f"the attempt was ended: {reason}")
        if reason == Verdict.STOPPED:
            raise FuseworksError(STOPPING)
