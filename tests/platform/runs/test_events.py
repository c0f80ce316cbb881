"""Events: numbered, kept once, bounded, and what they say of the run's progress."""

from __future__ import annotations

from typing import Any

import pytest

from fuseworks.core.errors import PlatformError
from fuseworks.runs import selectors
from fuseworks.runs.models import RunEvent
from fuseworks.runs.services import attempt_give_up, events_append
from fuseworks.runs.services import events as limits
from tests.platform.runs.steps import at, claimed, event, opened, queued

pytestmark = pytest.mark.django_db


def numbers(run: Any) -> list[int]:
    return list(RunEvent.objects.filter(run=run).order_by("number").values_list("number", flat=True))


def test_events_are_kept_in_order_and_the_last_of_a_stage_is_the_runs_progress() -> None:
    run = queued()
    attempt = claimed(run)
    posted = [
        event("capturing", "Capturing"),
        event("benchmarking", "Screening a", candidate="a", done=2, total=8, at_s=30.5),
        event("log", "a note"),
    ]
    assert events_append(attempt=attempt, first=0, events=posted) == 3
    run.refresh_from_db()
    assert (run.stage, run.candidate) == ("benchmarking", "a")
    assert run.progress == {"message": "Screening a", "done": 2, "total": 8, "at_s": 30.5, "budget_s": 480.0}
    assert [e.message for e in RunEvent.objects.filter(run=run).order_by("number")] == [
        "Capturing",
        "Screening a",
        "a note",
    ]


def test_a_doubled_and_an_overlapping_post_add_only_what_is_new_and_do_not_turn_progress_back() -> None:
    run = queued()
    attempt = claimed(run)
    early, late = event("capturing", "early"), event("benchmarking", "late")
    assert events_append(attempt=attempt, first=0, events=[early, late]) == 2
    assert events_append(attempt=attempt, first=0, events=[early]) == 2
    run.refresh_from_db()
    assert (run.stage, numbers(run)) == ("benchmarking", [0, 1])
    assert events_append(attempt=attempt, first=1, events=[late, event("verifying", "new")]) == 3
    run.refresh_from_db()
    assert (run.stage, numbers(run)) == ("verifying", [0, 1, 2])


def test_the_best_measurement_stays_until_there_is_a_better_one() -> None:
    run = queued()
    attempt = claimed(run)
    best = {"name": "a", "speedup": 1.5}
    events_append(attempt=attempt, first=0, events=[event("benchmarking", "x", data={"best": best})])
    events_append(attempt=attempt, first=1, events=[event("compiling", "y"), event("verifying", data={"best": "b"})])
    run.refresh_from_db()
    assert run.progress["best"] == best
    better = {"name": "b", "speedup": 2.0}
    events_append(attempt=attempt, first=3, events=[event("benchmarking", "z", data={"best": better})])
    run.refresh_from_db()
    assert run.progress["best"] == better


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({}, "kind"),
        (event(kind="dancing"), "kind"),
        (event(at_s="soon"), "at_s"),
        (event(at_s=float("nan")), "at_s"),
        (event(message=7), "message"),
        (event(done="half"), "done"),
        (event(data=[]), "data"),
        (event(surprise=1), "surprise"),
        ("not an object", "the event"),
    ],
)
def test_a_wrong_event_is_named_and_none_of_the_post_is_kept(wrong: Any, named: str) -> None:
    run = queued()
    attempt = claimed(run)
    with pytest.raises(PlatformError) as caught:
        events_append(attempt=attempt, first=5, events=[event(), wrong])
    assert (caught.value.id, caught.value.context["number"]) == ("runs:usage:event", 6)
    assert named in caught.value.message
    assert not numbers(run)


def test_what_postgresql_does_not_take_is_taken_out() -> None:
    run = queued()
    attempt = claimed(run)
    hostile = event(message="a\x00b\ud800", candidate="c\x00", data={"k\x00": ["v\x00", float("inf")]}, done=2**40)
    events_append(attempt=attempt, first=0, events=[hostile])
    kept = RunEvent.objects.get(run=run)
    assert (kept.message, kept.candidate, kept.data, kept.done) == ("ab?", "c", {"k": ["v", None]}, None)


def test_huge_events_are_cut() -> None:
    run = queued()
    attempt = claimed(run)
    huge = event(message="m" * 10_000, candidate="c" * 1000, data={"x": "y" * 100_000})
    events_append(attempt=attempt, first=0, events=[huge])
    kept = RunEvent.objects.get(run=run)
    assert (len(kept.message), len(kept.candidate)) == (4000, 300)
    assert kept.data == {"left_out_bytes": len('{"x": ""}') + 100_000}


def test_an_event_nested_without_end_is_refused() -> None:
    deep: Any = {}
    for _ in range(200):
        deep = {"a": deep}
    with pytest.raises(PlatformError) as caught:
        events_append(attempt=claimed(queued()), first=0, events=[event(data=deep)])
    assert caught.value.id == "runs:usage:event"


def test_past_the_number_of_events_one_says_so_and_progress_still_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_EVENTS", 3)
    run = queued()
    attempt = claimed(run)
    assert events_append(attempt=attempt, first=0, events=[event(message=str(i)) for i in range(5)]) == 5
    assert events_append(attempt=attempt, first=5, events=[event("verifying", "still at work")]) == 6
    messages = list(RunEvent.objects.filter(run=run).order_by("number").values_list("message", flat=True))
    assert messages == ["0", "1", "2", limits.FULL]
    run.refresh_from_db()
    assert (run.stage, run.progress["message"]) == ("verifying", "still at work")


def test_past_the_bytes_of_events_no_more_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_EVENT_BYTES", 1000)
    run = queued()
    attempt = claimed(run)
    for first in range(4):
        events_append(attempt=attempt, first=first, events=[event(message="m" * 400)])
    messages = list(RunEvent.objects.filter(run=run).order_by("number").values_list("message", flat=True))
    assert messages == ["m" * 400, "m" * 400, limits.FULL]


def test_a_number_far_ahead_keeps_the_order_of_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    run = queued()
    attempt = claimed(run)
    events_append(attempt=attempt, first=2_000_000, events=[event()])
    assert selectors.position(RunEvent.objects.get(run=run)) == 1_000_000 + limits.MAX_EVENTS


def test_events_of_an_attempt_that_is_not_the_current_one_are_stale() -> None:
    run = queued()
    old = claimed(run)
    attempt_give_up(attempt=old, reason="stopping", now=at(1))
    sent = opened(run, at(20)).attempt
    for attempt in (old, sent):
        with pytest.raises(PlatformError) as caught:
            events_append(attempt=attempt, first=0, events=[event()])
        assert caught.value.id == "runs:usage:stale"
    assert not numbers(run)


def test_readers_get_the_events_of_all_attempts_by_position() -> None:
    run = queued()
    first = claimed(run)
    events_append(attempt=first, first=0, events=[event(message="1.0"), event(message="1.1")])
    attempt_give_up(attempt=first, reason="stopping", now=at(1))
    events_append(attempt=claimed(run, at(20)), first=0, events=[event(message="2.0")])
    found = selectors.events_after(run=run, after=0, limit=2)
    assert ([e.message for e in found.events], found.next, found.more) == (["1.0", "1.1"], 1_000_001, True)
    rest = selectors.events_after(run=run, after=found.next, limit=2)
    assert ([e.message for e in rest.events], rest.next, rest.more) == (["2.0"], 2_000_000, False)
    none = selectors.events_after(run=run, after=rest.next)
    assert (none.events, none.next, none.more) == ([], 2_000_000, False)


def test_waiting_ends_with_the_first_new_event() -> None:
    run = queued()
    attempt = claimed(run)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            events_append(attempt=attempt, first=0, events=[event(message="at last")])

    found = selectors.events_awaited(run=run, after=0, wait_s=20, sleep=sleep)
    assert [e.message for e in found.events] == ["at last"]
    assert len(slept) == 2


def test_waiting_for_a_run_that_is_over_does_not_wait() -> None:
    def never(seconds: float) -> None:
        raise AssertionError("it waited")

    found = selectors.events_awaited(run=queued(status="failed"), after=0, wait_s=20, sleep=never)
    assert (found.events, found.next) == ([], 0)
    assert selectors.events_awaited(run=queued(), after=7, wait_s=0, sleep=never).next == 7


def test_measurements_are_the_last_of_each_candidate_of_the_current_attempt_fastest_first() -> None:
    run = queued()
    old = claimed(run)
    events_append(attempt=old, first=0, events=[event("benchmarking", candidate="old", data={"speedup": 9.0})])
    attempt_give_up(attempt=old, reason="stopping", now=at(1))
    attempt = claimed(run, at(20))
    screened = [("a", {"speedup": 1.2, "median_ms": 4.0}), ("b", {"speedup": 2.0}), ("a", {"speedup": 1.4}), ("c", {})]
    posted = [event("benchmarking", candidate=name, data=data) for name, data in screened]
    posted.append(event("benchmarking", candidate="d", data={"speedup": "fast"}))
    events_append(attempt=attempt, first=0, events=posted)
    run.refresh_from_db()
    found = [(one.candidate, one.speedup, one.median_ms) for one in selectors.measurements(run=run)]
    assert found == [("b", 2.0, None), ("a", 1.4, 4.0)]


def test_stages_are_pending_current_or_seen() -> None:
    run = queued()
    attempt = claimed(run)
    events_append(attempt=attempt, first=0, events=[event("capturing"), event("verifying"), event("compiling")])
    run.refresh_from_db()
    states = {stage.name: stage.state for stage in selectors.stages(run=run)}
    assert list(states) == [
        "capturing",
        "profiling",
        "diagnosing",
        "optimizing",
        "compiling",
        "verifying",
        "benchmarking",
    ]
    assert (states["capturing"], states["compiling"], states["verifying"], states["profiling"]) == (
        "seen",
        "current",
        "seen",
        "pending",
    )
