"""The reaper, second by second from NOW: lease 60 s, claim within 120 s, grace 120 s."""

from __future__ import annotations

from typing import Any

import pytest

from fuseworks.accounts.permissions import Actor
from fuseworks.gates.models import GateCheck
from fuseworks.runs.models import Attempt, Flip, Run
from fuseworks.runs.services import (
    Reaped,
    attempt_claim,
    attempt_heartbeat,
    attempt_unsend,
    reap,
    reaping,
    run_cancel,
    run_finish,
)
from tests.platform import factories
from tests.platform.runs.steps import at, claimed, opened, queued, worker_row

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("leases")]


def cancel_at(run: Run, seconds: float) -> None:
    run_cancel(actor=Actor(factories.make_member(run.team)), run=run)
    Run.objects.filter(pk=run.pk).update(cancel_requested_at=at(seconds))


def test_nothing_is_reaped_before_its_time() -> None:
    sent, worked = queued(), queued()
    opened(sent)
    claimed(worked)
    assert reap(now=at(60)) == Reaped()
    assert Flip.objects.count() == 1


def test_a_message_that_nobody_claimed_frees_the_run_and_costs_it_nothing() -> None:
    run = queued(max_attempts=1)
    attempt = opened(run).attempt
    assert reap(now=at(121)) == Reaped(unclaimed=1)
    run.refresh_from_db()
    attempt.refresh_from_db()
    assert (run.status, run.attempt, attempt.state) == ("queued", 1, "unclaimed")
    assert opened(run, at(122)).attempt.number == 2


def test_a_run_that_nobody_takes_up_is_sent_ever_more_rarely_and_at_once_again_after_a_claim() -> None:
    run, second, pauses_s = queued(), 0.0, []
    for _ in range(8):
        opened(run, at(second))
        reap(now=at(second + 121))
        run.refresh_from_db()
        assert run.send_after is not None
        pauses_s.append((run.send_after - at(second + 121)).total_seconds())
        second += 121 + pauses_s[-1]
    assert pauses_s == [0, 0, 60, 120, 240, 480, 900, 900]
    assert (run.unclaimed, run.attempt, run.status) == (8, 8, "queued")
    claimed(run, at(second))
    assert (run.unclaimed, run.send_after) == (0, None)


def test_of_the_attempts_that_nobody_took_up_the_last_ten_are_kept_and_of_others_all() -> None:
    run = queued(max_attempts=99)
    claimed(run)
    reap(now=at(61))
    for number in range(12):
        opened(run, at(100 + 200 * number))
        reap(now=at(100 + 200 * number + 121))
    kept = list(Attempt.objects.filter(run=run).order_by("number").values_list("number", "state"))
    assert kept == [(1, "expired"), *((number, "unclaimed") for number in range(4, 14))]
    run.refresh_from_db()
    assert (run.attempt, run.unclaimed) == (13, 12)


def test_a_broker_that_takes_no_message_costs_no_pause_but_leaves_no_rows_without_end() -> None:
    run = queued()
    for second in range(15):
        attempt_unsend(attempt=opened(run, at(second)).attempt, reason="not sent: refused", now=at(second))
    run.refresh_from_db()
    assert (run.unclaimed, run.send_after, run.attempt) == (0, None, 15)
    assert Attempt.objects.filter(run=run).count() == 10


def test_a_silent_worker_loses_the_run_and_only_time_up_to_its_last_heartbeat_counts() -> None:
    run = queued()
    attempt = claimed(run)
    attempt_heartbeat(attempt=attempt, now=at(100))
    assert reap(now=at(160)) == Reaped()
    assert reap(now=at(161)) == Reaped(expired=1)
    run.refresh_from_db()
    attempt.refresh_from_db()
    assert (run.status, run.worked_s) == ("queued", 100.0)
    assert (attempt.state, attempt.reason) == ("expired", "no heartbeat for 60 s")
    assert reap(now=at(162)) == Reaped()


def test_a_heartbeat_between_the_reapers_look_and_its_lock_wins() -> None:
    run = queued()
    attempt = claimed(run)
    looked_at = Attempt.objects.get(pk=attempt.pk)
    attempt_heartbeat(attempt=attempt, now=at(61))
    assert not reaping._expire(looked_at, at(61))
    run.refresh_from_db()
    assert (run.status, Attempt.objects.get().state) == ("running", "claimed")


def test_the_last_lost_worker_ends_the_run_as_ours_and_is_named() -> None:
    worker_row("host cpu")
    run = queued(max_attempts=2)
    GateCheck.objects.create(run=run, max_latency_ratio=1.05)
    claimed(run)
    reap(now=at(61))
    claimed(run, at(70))
    reap(now=at(131))
    run.refresh_from_db()
    assert (run.status, run.problem["id"], run.ended_at) == ("errored", "runs:ours:worker-lost", at(131))
    assert "2 attempts" in run.problem["message"] and "host cpu" in run.problem["message"]
    assert run.problem["remedy"]
    assert GateCheck.objects.get(run=run).outcome == "no_result"


def test_a_silent_worker_of_a_run_that_is_to_be_cancelled_ends_it() -> None:
    run = queued()
    claimed(run)
    cancel_at(run, 10)
    assert reap(now=at(61)) == Reaped(expired=1)
    run.refresh_from_db()
    assert run.status == "cancelled"


def test_a_worker_that_does_not_obey_a_cancellation_loses_the_run_after_the_grace() -> None:
    run = queued()
    attempt = claimed(run)
    cancel_at(run, 10)
    attempt_heartbeat(attempt=attempt, now=at(130))
    assert reap(now=at(130)) == Reaped()
    assert reap(now=at(131)) == Reaped(cancelled=1)
    run.refresh_from_db()
    assert (run.status, run.worked_s) == ("cancelled", 131.0)


def test_time_in_the_queue_does_not_count_against_the_limit() -> None:
    run = queued(time_limit_s=100.0)
    attempt = claimed(run, at(5000))
    attempt_heartbeat(attempt=attempt, now=at(5090))
    assert reap(now=at(5090)) == Reaped()


def test_a_run_over_its_limit_is_ended_when_its_worker_does_not_do_it() -> None:
    run = queued(time_limit_s=100.0, worked_s=40.0)
    attempt = claimed(run)
    attempt_heartbeat(attempt=attempt, now=at(220))
    assert reap(now=at(220)) == Reaped()  # less 120 of grace: exactly the limit
    assert reap(now=at(221)) == Reaped(timed_out=1)
    run.refresh_from_db()
    assert (run.status, run.worked_s) == ("timed_out", 261.0)
    assert (run.problem["id"], run.problem["side"]) == ("runs:ours:timed-out", "ours")
    assert "100 s" in run.problem["message"] and run.problem["remedy"]


def test_a_worker_that_is_lost_late_is_ours_to_make_good() -> None:
    run = queued(time_limit_s=50.0)
    attempt = claimed(run)
    attempt_heartbeat(attempt=attempt, now=at(55))
    assert reap(now=at(116)) == Reaped(expired=1)
    run.refresh_from_db()
    assert (run.status, run.worked_s, run.problem) == ("queued", 55.0, None)


def test_a_result_that_is_being_handed_in_is_not_late() -> None:
    run = queued(time_limit_s=100.0)
    attempt = claimed(run)
    for second, works in ((90, True), (95, False), (3000, False)):
        attempt_heartbeat(attempt=attempt, works=works, now=at(second))
    assert reap(now=at(3000)) == Reaped()


def test_a_worker_may_wait_for_its_device_for_days_but_not_hand_in_for_ever() -> None:
    day_s = 24 * 3600
    waiting = opened(queued()).attempt
    attempt_claim(attempt=waiting, worker="w", works=False, now=at(0))
    handing_in = claimed(queued(max_attempts=1))
    attempt_heartbeat(attempt=handing_in, works=False, now=at(10))
    for attempt in (waiting, handing_in):
        attempt_heartbeat(attempt=attempt, works=False, now=at(10 + 7200))
    assert reap(now=at(10 + 7200)) == Reaped()
    for attempt in (waiting, handing_in):
        attempt_heartbeat(attempt=attempt, works=False, now=at(day_s))
    assert reap(now=at(day_s)) == Reaped(expired=1)
    handing_in.run.refresh_from_db()
    assert (handing_in.run.status, handing_in.run.problem["id"]) == ("errored", "runs:ours:not-handed-in")
    assert "could not hand it in for 2 hours" in handing_in.run.problem["message"]
    assert handing_in.run.worked_s == 10.0


def test_a_run_that_finished_is_left_alone() -> None:
    run = queued()
    run_finish(attempt=claimed(run), document=factories.result_document(), now=at(10))
    assert reap(now=at(10_000)) == Reaped()
    run.refresh_from_db()
    assert run.status == "succeeded"


def test_one_attempt_that_cannot_be_reaped_does_not_keep_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = queued(), queued()
    claimed(bad)
    claimed(good, at(1), worker="another")

    def fail_for_bad(run: Run, **fields: Any) -> None:
        if run.pk == bad.pk:
            raise RuntimeError("a fault of ours")
        original(run, **fields)

    original = reaping.ending.requeue_or_end
    monkeypatch.setattr(reaping.ending, "requeue_or_end", fail_for_bad)
    assert reap(now=at(100)) == Reaped(expired=1)
    bad.refresh_from_db()
    good.refresh_from_db()
    assert (bad.status, good.status) == ("running", "queued")
