"""The heartbeat: what it learns ends the work, and silence ends it when the lease is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from workers.api import Beat, Stale
from workers.http import Unreachable
from workers.lease import Lease, Verdict


class Platform:
    """Answers each beat with the next of `answers`, and with the last one for ever."""

    def __init__(self, *answers: Beat | Exception) -> None:
        self.answers = list(answers)
        self.beats: list[float] = []
        self.works: list[bool] = []
        self.beaten = threading.Semaphore(0)

    def __call__(self, works: bool) -> Beat:
        self.beats.append(time.monotonic())
        self.works.append(works)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.beaten.release()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def wait(self, count: int) -> None:
        for _ in range(count):
            assert self.beaten.acquire(timeout=20)


def beat(lease_s: float = 0.4, *, cancel: bool = False, time_left_s: float = 100.0) -> Beat:
    return Beat(lease_s=lease_s, cancel=cancel, time_left_s=time_left_s)


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_it_beats_four_times_a_lease_and_tells_each_renewal() -> None:
    platform, renewed = Platform(beat()), threading.Semaphore(0)
    with Lease(platform, lease_s=0.4, time_left_s=100) as lease:
        lease.on_renewed = renewed.release
        platform.wait(5)
        assert all(renewed.acquire(timeout=20) for _ in range(4))
    gaps = [b - a for a, b in zip(platform.beats, platform.beats[1:], strict=False)]
    assert min(gaps) >= 0.09
    assert lease.verdict is None and lease.holds()


def test_a_cancelled_run_goes_on_beating_until_it_is_told() -> None:
    platform = Platform(beat(cancel=True))
    with Lease(platform, lease_s=0.4, time_left_s=100) as lease:
        platform.wait(3)
        assert lease.verdict == Verdict.CANCELLED and lease.holds()


def test_no_time_left_is_a_verdict_by_the_platforms_clock_and_by_its_own() -> None:
    platform = Platform(beat(time_left_s=0.0))
    with Lease(platform, lease_s=0.4, time_left_s=100) as lease:
        lease.work_begins()
        until(lambda: lease.verdict == Verdict.TIMED_OUT)
    silent = Platform(Unreachable("x"))
    with Lease(silent, lease_s=60, time_left_s=0.1) as lease:
        lease.work_begins()
        until(lambda: lease.verdict == Verdict.TIMED_OUT)
        assert lease.holds()


def test_waiting_for_the_device_takes_no_time_from_the_run() -> None:
    platform = Platform(beat(time_left_s=0.0))
    with Lease(platform, lease_s=0.2, time_left_s=0.0) as lease:
        platform.wait(4)
        assert lease.verdict is None
    assert not any(platform.works)


def test_that_work_begins_and_is_done_is_told_at_once() -> None:
    platform = Platform(beat(lease_s=600))
    with Lease(platform, lease_s=600, time_left_s=100) as lease:  # by itself it would not beat for minutes
        lease.work_begins()
        platform.wait(1)
        lease.work_is_done()
        platform.wait(1)
    assert platform.works == [True, False]


def test_a_result_that_is_there_is_not_late_any_more() -> None:
    platform = Platform(beat(lease_s=0.2, time_left_s=0.3))
    with Lease(platform, lease_s=600, time_left_s=0.3) as lease:
        lease.work_begins()
        lease.work_is_done()
        platform.wait(10)  # half a second and more
        assert lease.verdict is None


def test_a_stale_attempt_is_gone_and_beats_no_more() -> None:
    platform = Platform(Stale("over"))
    with Lease(platform, lease_s=0.2, time_left_s=100) as lease:
        until(lambda: lease.verdict == Verdict.STALE)
        assert lease.is_gone
        time.sleep(0.3)  # six beats of 50 ms would fit in here
    assert len(platform.beats) == 1


def test_silence_shorter_than_the_lease_is_borne() -> None:
    platform = Platform(Unreachable("x"), Unreachable("x"), beat(lease_s=20.0))
    with Lease(platform, lease_s=10.0, time_left_s=100) as lease:
        lease.lease_s = 0.4  # beats often, long before the lease is over
        platform.wait(3)
        until(lambda: lease.lease_s == 20.0)
        assert lease.verdict is None


def test_silence_longer_than_the_lease_loses_it() -> None:
    platform = Platform(Unreachable("x"))
    started = time.monotonic()
    with Lease(platform, lease_s=0.4, time_left_s=100) as lease:
        until(lambda: lease.verdict == Verdict.LOST)
    assert time.monotonic() - started >= 0.4
    assert len(platform.beats) >= 4


def test_after_a_freeze_the_first_answer_decides() -> None:
    frozen = threading.Event()

    def thaw(works: bool) -> Beat:
        frozen.wait(1.0)  # longer than the lease
        return beat()

    with Lease(thaw, lease_s=0.2, time_left_s=100) as lease:
        time.sleep(0.5)
        frozen.set()
        time.sleep(0.1)
        assert lease.verdict is None


def test_a_beat_that_fails_unforeseen_loses_the_lease() -> None:
    platform = Platform(ZeroDivisionError())
    with Lease(platform, lease_s=0.2, time_left_s=100) as lease:
        until(lambda: lease.verdict == Verdict.LOST)


@pytest.mark.parametrize("later", [Verdict.STALE, Verdict.LOST])
def test_that_it_is_over_goes_before_any_other_verdict(later: Verdict) -> None:
    lease = Lease(Platform(beat()), lease_s=1, time_left_s=1)
    lease.end(Verdict.CANCELLED)
    lease.end(Verdict.TIMED_OUT)
    assert lease.verdict == Verdict.CANCELLED
    lease.end(later)
    assert lease.verdict == later
    lease.end(Verdict.CANCELLED)
    assert lease.verdict == later
