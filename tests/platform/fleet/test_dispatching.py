"""One pass of the dispatcher over the real database; the broker is a list, or down."""

from __future__ import annotations

import pytest

from fuseworks.fleet.dispatching import dispatch
from fuseworks.fleet.sender import BrokerDown
from fuseworks.runs.models import Attempt, Run
from fuseworks.runs.services import attempt_claim, reap, run_finish
from tests.platform import factories
from tests.platform.runs.steps import NOW, at, claimed, queued, worker_row
from workers.messages import RunMessage

pytestmark = pytest.mark.django_db


class Broker:
    """Keeps what is sent; `down` from the nth message on."""

    def __init__(self, down_after: int = 10**6) -> None:
        self.sent: list[tuple[RunMessage, str]] = []
        self.down_after = down_after

    def send(self, message: RunMessage, target: str) -> None:
        if len(self.sent) >= self.down_after:
            raise BrokerDown("connection refused")
        self.sent.append((message, target))

    @property
    def runs(self) -> list[object]:
        return [message.run_id for message, _ in self.sent]


def test_nothing_is_sent_while_no_worker_is_there() -> None:
    queued()
    broker = Broker()
    assert dispatch(send=broker.send, now=NOW) == 0
    assert not Attempt.objects.exists()


def test_as_many_are_sent_as_workers_are_free_each_to_its_target() -> None:
    worker_row("a")
    worker_row("b")
    worker_row("gpu", target="cuda:sm_90")
    cpu = [queued() for _ in range(3)]
    gpu = queued(target="cuda:sm_90")
    broker = Broker()
    assert dispatch(send=broker.send, now=NOW) == 3
    assert [(m.run_id, target) for m, target in broker.sent] == [
        (cpu[0].pk, "cpu"),
        (cpu[1].pk, "cpu"),
        (gpu.pk, "cuda:sm_90"),
    ]
    assert dispatch(send=broker.send, now=at(1)) == 0
    assert Attempt.objects.filter(state="sent").count() == 3


def test_the_next_is_sent_when_a_worker_is_free_again() -> None:
    worker_row("a")
    first, second = queued(), queued()
    broker = Broker()
    dispatch(send=broker.send, now=NOW)
    attempt = Attempt.objects.get(run=first)
    attempt_claim(attempt=attempt, worker="a", now=at(1))
    assert dispatch(send=broker.send, now=at(2)) == 0
    run_finish(attempt=attempt, document=factories.result_document(), now=at(3))
    assert dispatch(send=broker.send, now=at(4)) == 1
    assert broker.runs == [first.pk, second.pk]


def test_units_take_turns_over_passes() -> None:
    worker_row("a")
    big = factories.make_version(factories.make_model(factories.make_team()))
    small = factories.make_version(factories.make_model(factories.make_team()))
    claimed(factories.make_run(big), worker="busy")
    waits, other = factories.make_run(big), factories.make_run(small)
    broker = Broker()
    dispatch(send=broker.send, now=NOW)
    assert broker.runs == []  # a worker that nobody knows holds one: the only known one is not counted as free
    worker_row("b")
    dispatch(send=broker.send, now=NOW)
    assert broker.runs == [other.pk]
    assert Attempt.objects.filter(run=waits).count() == 0


def test_a_broker_that_is_down_leaves_the_run_waiting_under_the_next_number() -> None:
    worker_row("a")
    run = queued(max_attempts=1)
    for _ in range(3):
        with pytest.raises(BrokerDown):
            dispatch(send=Broker(down_after=0).send, now=NOW)
    assert list(Attempt.objects.order_by("number").values_list("state", flat=True)) == ["unclaimed"] * 3
    assert "connection refused" in Attempt.objects.order_by("number")[0].reason
    broker = Broker()
    assert dispatch(send=broker.send, now=at(1)) == 1
    assert [(m.run_id, m.attempt) for m, _ in broker.sent] == [(run.pk, 4)]


def test_a_broker_that_goes_down_half_way_keeps_what_was_sent() -> None:
    worker_row("a")
    worker_row("b")
    first, second = queued(), queued()
    broker = Broker(down_after=1)
    with pytest.raises(BrokerDown):
        dispatch(send=broker.send, now=NOW)
    states = dict(Attempt.objects.values_list("run_id", "state"))
    assert states == {first.pk: "sent", second.pk: "unclaimed"}


def test_a_lost_message_is_sent_again_with_another_token() -> None:
    worker_row("a")
    run = queued()
    broker = Broker()
    dispatch(send=broker.send, now=NOW)
    worker = Run.objects.get(pk=run.pk)
    assert worker.status == "queued"
    reap(now=at(121))
    from fuseworks.fleet.models import Worker

    Worker.objects.update(last_seen_at=at(121))
    dispatch(send=broker.send, now=at(122))
    (first, _), (second, _) = broker.sent
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.token != second.token
