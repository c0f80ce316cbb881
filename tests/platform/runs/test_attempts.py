"""Attempts: opened, claimed, kept alive, given up. Times are worked out by hand from NOW."""

from __future__ import annotations

from typing import Any

import pytest

from fuseworks.accounts.authentication import token_sha256
from fuseworks.accounts.permissions import Actor
from fuseworks.core.errors import PlatformError
from fuseworks.runs.models import Attempt, AttemptState, Flip, Run
from fuseworks.runs.services import (
    attempt_claim,
    attempt_give_up,
    attempt_heartbeat,
    attempt_open,
    attempt_unsend,
    run_cancel,
    run_finish,
)
from tests.platform import factories
from tests.platform.runs.steps import NOW, at, claimed, opened, queued, token_of, worker_row

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("leases")]


def member_of(run: Run) -> Actor:
    return Actor(factories.make_member(run.team))


def is_stale(call: Any) -> bool:
    with pytest.raises(PlatformError) as caught:
        call()
    assert (caught.value.id, caught.value.status) == ("runs:usage:stale", 409)
    return True


def test_opening_raises_the_fence_and_leaves_the_run_queued_until_it_is_claimed() -> None:
    run = queued()
    found = opened(run)
    run.refresh_from_db()
    assert (run.status, run.attempt) == ("queued", 1)
    assert (found.attempt.state, found.attempt.lease_until) == ("sent", at(120))
    assert (found.message.run_id, found.message.attempt) == (run.pk, 1)
    assert str(found.message.api) == "http://site.example/api/v1/"


def test_only_the_tokens_hash_is_stored() -> None:
    found = opened(queued())
    token = token_of(found)
    assert found.attempt.token_sha256 == token_sha256(token)
    assert not [value for value in vars(Attempt.objects.get()).values() if token in str(value)]


def test_a_run_whose_message_is_on_its_way_is_not_opened_again() -> None:
    run = queued()
    opened(run)
    assert attempt_open(run_id=run.pk, now=NOW) is None
    run.refresh_from_db()
    assert run.attempt == 1


@pytest.mark.parametrize("status", ["running", "succeeded", "cancelled"])
def test_a_run_that_does_not_wait_is_not_opened(status: str) -> None:
    assert attempt_open(run_id=queued(status=status).pk, now=NOW) is None
    assert not Attempt.objects.exists()


def test_a_message_that_could_not_be_sent_frees_the_run_under_the_next_number() -> None:
    run = queued()
    first = opened(run)
    attempt_unsend(attempt=first.attempt, reason="not sent", now=at(1))
    second = opened(run, at(2))
    assert (second.attempt.number, second.message.attempt) == (2, 2)
    assert token_of(second) != token_of(first)
    states = list(Attempt.objects.order_by("number").values_list("state", flat=True))
    assert states == ["unclaimed", "sent"]


def test_a_claim_makes_the_run_running_and_starts_the_lease() -> None:
    run, worker = queued(), worker_row("host cpu")
    attempt = opened(run).attempt
    attempt_claim(attempt=attempt, worker="host cpu", now=at(5))
    run.refresh_from_db()
    attempt.refresh_from_db()
    assert (run.status, run.started_at) == ("running", at(5))
    assert (attempt.state, attempt.worker, attempt.claimed_at, attempt.lease_until) == (
        "claimed",
        worker,
        at(5),
        at(65),
    )
    assert Flip.objects.get(run=run).reason == "claimed by host cpu"


def test_a_second_claim_is_stale() -> None:
    run = queued()
    attempt = claimed(run)
    assert is_stale(lambda: attempt_claim(attempt=attempt, worker="another", now=at(1)))
    attempt.refresh_from_db()
    assert attempt.claimed_at == NOW
    assert Flip.objects.filter(run=run).count() == 1


def test_a_claim_whose_answer_was_lost_is_the_same_claim_again_with_its_lease_anew() -> None:
    run = queued()
    attempt = opened(run).attempt
    for second in (5, 25):
        again = attempt_claim(attempt=attempt, worker="host cpu", works=False, key="k1", now=at(second))
        assert again.status == "running"
    attempt.refresh_from_db()
    assert (attempt.claimed_at, attempt.lease_until) == (at(5), at(85))
    assert Flip.objects.filter(run=run).count() == 1


@pytest.mark.parametrize("key", ["k2", ""])
def test_whoever_does_not_know_the_key_of_a_claim_is_stale_even_under_the_same_name(key: str) -> None:
    attempt = opened(queued()).attempt
    attempt_claim(attempt=attempt, worker="host cpu", key="k1", now=NOW)
    assert is_stale(lambda: attempt_claim(attempt=attempt, worker="host cpu", key=key, now=at(1)))


def test_a_claim_without_a_key_is_never_the_same_claim_again() -> None:
    attempt = claimed(queued())
    assert is_stale(lambda: attempt_claim(attempt=attempt, worker="host cpu", key="", now=at(1)))


def test_a_claim_that_comes_again_after_its_attempt_is_over_is_stale() -> None:
    run = queued()
    attempt = opened(run).attempt
    attempt_claim(attempt=attempt, worker="host cpu", key="k1", now=NOW)
    attempt_give_up(attempt=attempt, reason="no disk", now=at(1))
    claimed(run, at(30))
    assert is_stale(lambda: attempt_claim(attempt=attempt, worker="host cpu", key="k1", now=at(31)))


def test_a_late_claim_of_an_older_message_is_stale_and_the_newer_one_works() -> None:
    run = queued()
    old = opened(run).attempt
    attempt_unsend(attempt=old, reason="lost", now=at(121))
    new = opened(run, at(122)).attempt
    assert is_stale(lambda: attempt_claim(attempt=old, worker="slow", now=at(123)))
    assert attempt_claim(attempt=new, worker="quick", now=at(124)).status == "running"


def test_a_late_claim_of_a_message_that_was_given_up_for_lost_is_stale() -> None:
    run = queued()
    attempt = opened(run).attempt
    attempt_unsend(attempt=attempt, reason="lost", now=at(121))
    assert is_stale(lambda: attempt_claim(attempt=attempt, worker="slow", now=at(122)))
    run.refresh_from_db()
    assert (run.status, run.attempt) == ("queued", 1)


def test_a_queued_run_that_is_to_be_cancelled_is_not_opened() -> None:
    assert attempt_open(run_id=queued(cancel_requested_at=NOW).pk, now=NOW) is None


def test_a_claim_after_cancelling_is_stale() -> None:
    run = queued()
    attempt = opened(run).attempt
    actor = member_of(run)
    run_cancel(actor=actor, run=run)
    assert is_stale(lambda: attempt_claim(attempt=attempt, worker="w", now=at(1)))
    run.refresh_from_db()
    assert run.status == "cancelled"


def test_a_run_whose_upload_was_deleted_ends_at_the_claim_and_says_why() -> None:
    run = queued()
    attempt = opened(run).attempt
    version = run.version
    version.deleted_at = NOW
    version.save()
    assert is_stale(lambda: attempt_claim(attempt=attempt, worker="w", now=at(1)))
    run.refresh_from_db()
    attempt.refresh_from_db()
    assert (run.status, run.problem["id"], attempt.state) == ("cancelled", "runs:user:version-gone", "ended")
    assert run.problem["remedy"]


def test_a_heartbeat_renews_the_lease_and_tells_what_is_left() -> None:
    run = queued(time_limit_s=1000.0, worked_s=300.0)  # in attempts that were lost: not the user's time
    attempt = claimed(run)
    beat = attempt_heartbeat(attempt=attempt, now=at(50))
    attempt.refresh_from_db()
    assert attempt.lease_until == at(110)
    assert (beat.cancel, beat.time_left_s) == (False, 950.0)


def test_the_clock_stands_while_the_worker_waits_for_its_device_and_while_it_hands_in() -> None:
    run = queued(time_limit_s=1000.0)
    attempt = opened(run).attempt
    attempt_claim(attempt=attempt, worker="host cpu", works=False, now=NOW)
    beats = [(30, False, 1000.0), (40, False, 1000.0), (50, True, 1000.0), (95, True, 955.0), (110, False, 940.0)]
    for second, works, left_s in [*beats, (500, False, 940.0)]:
        assert attempt_heartbeat(attempt=attempt, works=works, now=at(second)).time_left_s == left_s
    run_finish(attempt=attempt, document=factories.result_document(), now=at(600))
    run.refresh_from_db()
    assert (run.status, run.worked_s) == ("succeeded", 60.0)


def test_no_time_is_less_than_none() -> None:
    attempt = claimed(queued(time_limit_s=10.0))
    assert attempt_heartbeat(attempt=attempt, now=at(50)).time_left_s == 0.0


def test_a_heartbeat_is_a_sign_of_life_of_its_worker_and_tells_of_cancelling() -> None:
    worker, run = worker_row("host cpu"), queued()
    attempt = claimed(run)
    run_cancel(actor=member_of(run), run=run)
    assert attempt_heartbeat(attempt=attempt, now=at(50)).cancel
    worker.refresh_from_db()
    assert worker.last_seen_at == at(50)


def test_a_stale_heartbeat_is_refused() -> None:
    run = queued()
    old = claimed(run)
    attempt_give_up(attempt=old, reason="no disk", now=at(1))
    claimed(run, at(30))
    assert is_stale(lambda: attempt_heartbeat(attempt=old, now=at(31)))


def test_who_gives_up_sends_the_run_back_with_its_time_counted_and_its_progress_forgotten() -> None:
    run = queued()
    attempt = claimed(run)
    Run.objects.update(stage="compiling", candidate="inductor", progress={"done": 1})
    attempt_give_up(attempt=attempt, reason="no room\x00 left", now=at(40))
    run.refresh_from_db()
    attempt.refresh_from_db()
    assert (run.status, run.worked_s, run.stage, run.candidate, run.progress) == ("queued", 40.0, "", "", {})
    assert (attempt.state, attempt.reason) == (AttemptState.GAVE_UP, "no room left")


def test_the_last_attempt_that_is_given_up_ends_the_run_as_ours() -> None:
    run = queued(max_attempts=2)
    attempt_give_up(attempt=claimed(run), reason="no sandbox", now=at(1))
    attempt_give_up(attempt=claimed(run, at(20)), reason="no sandbox", now=at(21))
    run.refresh_from_db()
    assert (run.status, run.problem["id"], run.ended_at) == ("errored", "runs:ours:gave-up", at(21))
    assert "2 attempts" in run.problem["message"]
    assert "no sandbox" in run.problem["message"]


def test_a_message_that_nobody_claimed_does_not_count_as_an_attempt() -> None:
    run = queued(max_attempts=2)
    for second in range(5):
        attempt_unsend(attempt=opened(run, at(second)).attempt, reason="lost", now=at(second))
    attempt_give_up(attempt=claimed(run, at(10)), reason="no disk", now=at(11))
    run.refresh_from_db()
    assert (run.status, run.attempt) == ("queued", 6)


def test_giving_up_a_run_that_is_to_be_cancelled_ends_it() -> None:
    run = queued()
    attempt = claimed(run)
    run_cancel(actor=member_of(run), run=run)
    attempt_give_up(attempt=attempt, reason="stopping", now=at(5))
    run.refresh_from_db()
    assert (run.status, run.worked_s) == ("cancelled", 5.0)


def test_the_time_of_attempts_that_were_lost_is_told_and_does_not_count_against_the_limit() -> None:
    run = queued(time_limit_s=100.0)
    attempt_give_up(attempt=claimed(run), reason="no disk", now=at(60))
    attempt_give_up(attempt=claimed(run, at(500)), reason="no disk", now=at(560))
    run.refresh_from_db()
    assert (run.status, run.worked_s, run.problem) == ("queued", 120.0, None)
    assert attempt_heartbeat(attempt=claimed(run, at(600)), now=at(610)).time_left_s == 90.0


def test_a_worker_that_was_told_to_end_costs_the_run_no_attempt() -> None:
    run = queued(max_attempts=1)
    for second in (0, 100, 200, 300):
        attempt = claimed(run, at(second))
        attempt_give_up(attempt=attempt, reason="a deployment", stopping=True, now=at(second + 1))
        attempt.refresh_from_db()
        assert attempt.state == AttemptState.STOPPED
    run.refresh_from_db()
    assert (run.status, run.attempt) == ("queued", 4)
    attempt_give_up(attempt=claimed(run, at(400)), reason="no disk", now=at(401))
    run.refresh_from_db()
    assert (run.status, run.problem["id"]) == ("errored", "runs:ours:gave-up")
    assert "(1 attempts)" in run.problem["message"]


def test_the_deleted_upload_of_another_team_is_not_named() -> None:
    other = factories.make_version(factories.make_model(factories.make_team(), "Zebra"), deleted_at=NOW)
    run = queued(purpose="compare", against=other)
    attempt = opened(run).attempt
    assert is_stale(lambda: attempt_claim(attempt=attempt, worker="w", now=at(1)))
    run.refresh_from_db()
    assert run.problem["message"] == "The file of the version to compare with was deleted while the run waited."
    assert "Zebra" not in run.summary


def test_a_run_that_is_over_keeps_its_first_start() -> None:
    run = queued()
    attempt_give_up(attempt=claimed(run), reason="stopping", now=at(1))
    claimed(run, at(50))
    assert run.started_at == NOW
    assert factories.make_run(run.version).started_at is None
