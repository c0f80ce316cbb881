"""A prediction is for a GPU that is not there: workers of the CPU serve it, and it waits in their queue."""

from __future__ import annotations

import pytest

from fuseworks.fleet import selectors
from fuseworks.fleet.dispatching import dispatch
from fuseworks.fleet.serving import served_by
from fuseworks.runs.models import Run
from tests.platform.fleet.test_dispatching import Broker
from tests.platform.runs.steps import NOW, claimed, opened, queued, worker_row

pytestmark = pytest.mark.django_db


def prediction(**fields: object) -> Run:
    return queued(**{"purpose": "explain", "target": "cuda:sm_90", **fields})


def test_a_prediction_is_served_by_the_cpu_and_every_other_run_by_its_target() -> None:
    assert served_by(prediction()) == "cpu"
    assert served_by(queued(purpose="optimize", target="cuda:sm_90")) == "cuda:sm_90"


def test_it_is_sent_to_a_worker_of_the_cpu_and_not_to_one_of_the_gpu() -> None:
    worker_row("gpu", target="cuda:sm_90")
    run, broker = prediction(), Broker()
    assert dispatch(send=broker.send, now=NOW) == 0
    worker_row("host cpu")
    assert dispatch(send=broker.send, now=NOW) == 1
    assert [(message.run_id, target) for message, target in broker.sent] == [(run.pk, "cpu")]


def test_it_takes_the_place_of_one_worker_of_the_cpu_alone() -> None:
    for name in ("a", "b", "c"):
        worker_row(name)
    worker_row("gpu", target="cuda:sm_90")
    opened(prediction())
    assert selectors.free_workers(now=NOW) == {"cpu": 2, "cuda:sm_90": 1}
    claimed(prediction(), worker="not known")
    assert selectors.free_workers(now=NOW) == {"cpu": 1, "cuda:sm_90": 1}


def test_it_counts_among_its_teams_runs_at_work_on_the_cpu() -> None:
    run = prediction()
    opened(run)
    assert selectors.load(target="cpu").teams == {run.team_id: 1}
    assert selectors.load(target="cuda:sm_90").teams == {}


def test_its_place_is_among_the_runs_for_the_cpu() -> None:
    worker_row("host cpu", seen=NOW)
    first, run = queued(), prediction()
    Run.objects.filter(pk=first.pk).update(created_at=NOW)
    found = selectors.queue_place(run=run, now=NOW)
    assert found is not None and (found.position, found.workers, found.waits_for) == (1, 1, "turn")


def test_it_is_counted_in_the_queue_of_the_cpu() -> None:
    prediction(unclaimed=3)
    queued(purpose="optimize", target="cuda:sm_90")
    found = {queue.target: (queue.waiting, queue.in_vain) for queue in selectors.queues(now=NOW)}
    assert found == {"cpu": (1, 1), "cuda:sm_90": (1, 0)}
