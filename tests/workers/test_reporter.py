"""Events reach the platform in order, each once, in batches; a slow platform does not slow whoever reports."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from optimizer.result import Event
from workers.api import Stale
from workers.http import Refused
from workers.lease import Lease, Verdict
from workers.reporter import BATCH, BATCH_BYTES, Reporter


def event(message: str) -> Event:
    return Event(kind="log", at_s=0, budget_s=1, message=message)


@pytest.fixture
def lease() -> Lease:
    def never() -> None:
        raise AssertionError

    return Lease(never, lease_s=60, time_left_s=60)  # type: ignore[arg-type]


class Posts:
    def __init__(self) -> None:
        self.made: list[tuple[int, list[str]]] = []

    def __call__(self, first: int, events: Sequence[Event]) -> None:
        self.made.append((first, [one.message for one in events]))

    def messages(self) -> list[str]:
        return [message for _, batch in self.made for message in batch]


def test_events_are_numbered_on_and_arrive_in_order(lease: Lease) -> None:
    posts = Posts()
    with Reporter(posts, lease, every_s=0.01) as reporter:
        for number in range(237):
            reporter.add(event(str(number)))
    assert posts.messages() == [str(number) for number in range(237)]
    assert max(len(batch) for _, batch in posts.made) <= BATCH
    firsts = [first for first, _ in posts.made]
    assert firsts[0] == 0
    assert all(b == a + len(batch) for a, b, (_, batch) in zip(firsts, firsts[1:], posts.made, strict=False))


def test_a_full_batch_does_not_wait(lease: Lease) -> None:
    posted = threading.Event()
    with Reporter(lambda *_: posted.set(), lease, every_s=60) as reporter:
        for number in range(BATCH):
            reporter.add(event(str(number)))
        assert posted.wait(20)


def test_what_is_left_is_sent_at_the_end(lease: Lease) -> None:
    posts = Posts()
    with Reporter(posts, lease, every_s=60) as reporter:
        reporter.add(event("last"))
    assert posts.made == [(0, ["last"])]


def test_large_events_make_small_batches_and_the_largest_goes_alone(lease: Lease) -> None:
    posts = Posts()
    with Reporter(posts, lease, every_s=60) as reporter:
        for size in (BATCH_BYTES // 2 - 200, BATCH_BYTES // 2 - 200, 10, 2 * BATCH_BYTES, 10):
            reporter.add(event("x" * size))
    assert [len(batch) for _, batch in posts.made] == [3, 1, 1]


def test_nobody_waits_for_a_slow_platform(lease: Lease) -> None:
    hold, entered = threading.Event(), threading.Event()

    def slow(*_: object) -> None:
        entered.set()
        assert hold.wait(20)

    with Reporter(slow, lease, every_s=0.01) as reporter:
        reporter.add(event("a"))
        assert entered.wait(20)
        for _ in range(1000):
            reporter.add(event("b"))
        hold.set()


def test_a_batch_that_is_refused_is_left_out_and_the_next_has_its_own_numbers(lease: Lease) -> None:
    posts = Posts()

    def refuse_first(first: int, events: Sequence[Event]) -> None:
        if first == 0:
            raise Refused(400, "runs:usage:event", "no")
        posts(first, events)

    with Reporter(refuse_first, lease, every_s=60) as reporter:
        for number in range(BATCH + 1):
            reporter.add(event(str(number)))
    assert posts.made == [(BATCH, [str(BATCH)])]
    assert lease.holds()


def test_a_stale_answer_ends_the_lease(lease: Lease) -> None:
    def stale(*_: object) -> None:
        raise Stale("over")

    with Reporter(stale, lease, every_s=0.01) as reporter:
        reporter.add(event("a"))
    assert lease.verdict == Verdict.STALE


def test_nothing_is_posted_once_the_lease_is_gone(lease: Lease) -> None:
    posts = Posts()
    lease.end(Verdict.LOST)
    with Reporter(posts, lease, every_s=0.01) as reporter:
        reporter.add(event("a"))
    assert posts.made == []
