"""Which workers are alive and free, what waits, and when a run's turn comes. Lease 60 s: a sign of life each 20 s."""

from __future__ import annotations

from typing import Any

import pytest

from fuseworks.accounts.permissions import Actor
from fuseworks.fleet import selectors
from fuseworks.runs.models import Attempt
from fuseworks.runs.services import attempt_claim, attempt_give_up, reap
from tests.platform import factories
from tests.platform.runs.steps import NOW, at, claimed, opened, queued, worker_row

pytestmark = pytest.mark.django_db


def test_a_worker_is_asked_for_a_sign_three_times_a_lease(settings: Any) -> None:
    assert selectors.heartbeat_s() == 20.0
    settings.LEASE_S = 1
    assert selectors.heartbeat_s() == 1.0


def test_a_worker_is_alive_until_three_signs_are_missing_or_it_says_goodbye() -> None:
    worker_row("a", seen=at(0))
    worker_row("b", seen=at(30), stopped_at=at(30))
    assert [w.name for w in selectors.workers_alive(now=at(60))] == ["a"]
    assert not selectors.workers_alive(now=at(61))


def test_free_workers_are_those_without_a_run_less_the_messages_on_their_way() -> None:
    for name in ("a", "b", "c"):
        worker_row(name)
    worker_row("gpu", target="cuda:sm_90")
    worker_row("dead", seen=at(-500))
    assert selectors.free_workers(now=NOW) == {"cpu": 3, "cuda:sm_90": 1}
    claimed(queued(), worker="a")
    assert selectors.free_workers(now=NOW) == {"cpu": 2, "cuda:sm_90": 1}
    opened(queued())
    assert selectors.free_workers(now=NOW) == {"cpu": 1, "cuda:sm_90": 1}
    claimed(queued(), worker="not known")
    assert selectors.free_workers(now=NOW) == {"cuda:sm_90": 1}
    opened(queued())
    assert selectors.free_workers(now=NOW) == {"cuda:sm_90": 1}


def test_the_run_of_a_dead_worker_does_not_take_a_living_ones_place() -> None:
    worker_row("dead", seen=at(-500))
    worker_row("alive")
    claimed(queued(), worker="dead")
    assert selectors.free_workers(now=NOW) == {"cpu": 1}


def test_what_is_sent_cancelled_or_just_given_back_does_not_wait() -> None:
    waits, sent, asked, back = (queued() for _ in range(4))
    opened(sent)
    asked.cancel_requested_at = NOW
    asked.save()
    attempt_give_up(attempt=claimed(back), reason="no disk", now=at(10))
    assert [run.run_id for run in selectors.waiting(target="cpu", now=at(11))] == [waits.pk]
    later = selectors.waiting(target="cpu", now=at(26))
    assert {run.run_id for run in later} == {waits.pk, back.pk}
    assert selectors.waiting(target="cuda:sm_90", now=at(11)) == []


def test_the_load_counts_what_is_sent_and_what_is_at_work_of_one_target() -> None:
    unit = factories.make_unit()
    first, second = factories.make_team(unit=unit), factories.make_team(unit=unit)
    for team in (first, first, second):
        opened(factories.make_run(factories.make_version(factories.make_model(team))))
    over = factories.make_run(factories.make_version(factories.make_model(second)))
    attempt_give_up(attempt=claimed(over), reason="x", now=NOW)
    elsewhere = factories.make_run(factories.make_version(factories.make_model(second)), target="cuda:sm_90")
    opened(elsewhere)
    load = selectors.load(target="cpu")
    assert (dict(load.units), dict(load.teams)) == ({unit.pk: 3}, {first.pk: 2, second.pk: 1})


def test_the_place_in_the_queue_follows_the_fair_order() -> None:
    worker_row("a")
    big = factories.make_version(factories.make_model(factories.make_team()))
    small = factories.make_version(factories.make_model(factories.make_team()))
    runs = [factories.make_run(big) for _ in range(3)]
    late = factories.make_run(small)

    def place(run: Any) -> int:
        found = selectors.queue_place(run=run, now=NOW)
        assert found is not None and found.waits_for == "turn"
        return found.position

    assert [place(run) for run in (*runs, late)] == [0, 2, 3, 1]
    inspection = factories.make_run(big, purpose="inspect")
    # the inspection is first and counts for the big team: then the small one, then the rest
    assert [place(run) for run in (*runs, late, inspection)] == [2, 3, 4, 1, 0]


def test_the_place_says_what_the_run_waits_for() -> None:
    run = queued()
    none = selectors.queue_place(run=run, now=NOW)
    assert none is not None
    assert (none.waits_for, none.workers, none.reason) == ("worker", 0, "No worker serves this target at the moment.")
    worker_row("a")
    turn = selectors.queue_place(run=run, now=NOW)
    assert turn is not None
    assert (turn.waits_for, turn.position) == ("turn", 0)
    assert turn.reason.startswith("Next: it waits for a worker that is free. An inspection that comes meanwhile")
    attempt = opened(run).attempt
    sent = selectors.queue_place(run=run, now=NOW)
    assert sent is not None and sent.waits_for == "claim"
    attempt_claim(attempt=attempt, worker="a", now=NOW)
    run.refresh_from_db()
    assert selectors.queue_place(run=run, now=NOW) is None


def test_an_inspection_that_comes_later_goes_first_and_the_reason_told_so() -> None:
    worker_row("a")
    first, second = queued(), queued()
    before = selectors.queue_place(run=second, now=NOW)
    assert before is not None and before.position == 1
    assert before.reason.startswith("1 run is before it. Inspections go first, then business units take turns")
    queued(purpose="inspect")
    places = [selectors.queue_place(run=run, now=NOW) for run in (first, second)]
    assert [place.position for place in places if place is not None] == [1, 2]


def test_a_run_that_no_worker_takes_up_says_so_and_is_not_sent_for_a_while() -> None:
    worker_row("a", seen=at(2000))
    run = queued()
    for count in (1, 2, 3):
        opened(run, at(200 * count))
        reap(now=at(200 * count + 121))
    run.refresh_from_db()
    now = at(721)
    worker_row("b", seen=now)
    place = selectors.queue_place(run=run, now=now)
    assert place is not None
    assert place.waits_for == "link"
    assert place.reason == "Sent 3 times, and no worker took it: look at the workers' link to the broker."
    assert selectors.waiting(target="cpu", now=at(721 + 59)) == []
    assert [one.run_id for one in selectors.waiting(target="cpu", now=at(721 + 60))] == [run.pk]
    (queue,) = selectors.queues(now=now)
    assert (queue.waiting, queue.in_vain) == (1, 1)
    opened(run, at(800))
    run.refresh_from_db()
    sent = selectors.queue_place(run=run, now=now)
    assert sent is not None and sent.waits_for == "link"


def test_queues_are_listed_for_every_target_that_is_served_or_wanted() -> None:
    worker_row("a")
    worker_row("b")
    claimed(queued(), worker="a")
    queued()
    queued(target="cuda:sm_90")
    found = [(q.target, q.waiting, q.running, q.workers, q.free) for q in selectors.queues(now=NOW)]
    assert found == [("cpu", 1, 1, 2, 1), ("cuda:sm_90", 1, 0, 0, 0)]
    assert selectors.targets_served(now=NOW) == ["cpu"]


def test_workers_are_shown_with_their_state_and_only_visible_runs() -> None:
    mine, theirs = queued(), queued()
    actor = Actor(factories.make_member(mine.team, "viewer"))
    for name in ("a", "b", "c"):
        worker_row(name)
    worker_row("silent", seen=at(-100))
    worker_row("stopped", seen=at(-10), stopped_at=at(-10))
    worker_row("forgotten", seen=at(-3 * 24 * 3600), stopped_at=at(-3 * 24 * 3600))
    claimed(mine, worker="a")
    claimed(theirs, worker="b")
    shown = {one.worker.name: (one.state, one.run and one.run.pk) for one in selectors.fleet(actor=actor, now=NOW)}
    assert shown == {
        "a": ("busy", mine.pk),
        "b": ("busy", None),
        "c": ("idle", None),
        "silent": ("silent", None),
        "stopped": ("stopped", None),
    }
    assert Attempt.objects.filter(state="claimed").count() == 2
