"""A process whose gaps lie apart from the others' is refused, though each burst adds up within 5 ms + 3 %."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import torch

from optimizer.benchmarking import bursts, gaps
from optimizer.benchmarking.bursts import Burst, Entrant, clock_reason
from optimizer.benchmarking.gaps import outliers
from optimizer.benchmarking.sets import measure_set
from optimizer.errors import FuseworksError
from optimizer.sandbox import Reply
from tests.optimizer.verifying.local import LocalChild, TorchContender

MS = 1_000_000


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaps, "busy", lambda: False)
    monkeypatch.setattr(bursts, "busy", lambda: False)


def entrant(name: str, burst_ms: float, gap_ms: float, factor: float = 1.0, count: int = 10) -> Entrant:
    """Bursts of four calls that took `burst_ms` together; the child says `factor` times that."""
    calls = np.full(4, int(burst_ms * MS * factor / 4), dtype=np.int64)
    outside = int((burst_ms + gap_ms) * MS)
    return Entrant(name, None, bursts=[Burst(calls, outside, 0, 0) for _ in range(count)])  # type: ignore[arg-type]


def accused(*entrants: Entrant) -> dict[str, FuseworksError]:
    return dict(outliers({one.name: one for one in entrants}))


HONEST = [entrant("baseline", 60.0, 1.2), entrant("baseline_again", 60.0, 1.25), entrant("peer", 25.0, 1.35)]


def test_honest_gaps_are_refused_to_nobody() -> None:
    assert accused(*HONEST, entrant("winner", 20.0, 1.3)) == {}


@pytest.mark.parametrize("burst_ms", [13.0, 20.0, 21.0])
def test_a_liar_of_four_fifths_is_caught_where_the_single_burst_is_not(burst_ms: float) -> None:
    liar = entrant("winner", burst_ms, 1.3, factor=0.8)
    inside, outside = int(liar.bursts[0].calls_ns.sum()), liar.bursts[0].outside_ns
    assert clock_reason(inside, outside) is None, "what each burst by itself lets pass"
    found = accused(*HONEST, liar)
    assert list(found) == ["winner"]
    assert (found["winner"].id, found["winner"].side) == ("benchmarking:user:gap", "user")
    assert found["winner"].context["gap_ms"] == pytest.approx(0.2 * burst_ms + 1.3, abs=0.01)
    assert found["winner"].context["others_ms"] == 1.25


def test_a_baseline_that_says_more_than_it_took_is_caught_too() -> None:
    slow = entrant("baseline", 60.0, 1.2, factor=1.07)
    assert list(accused(slow, *HONEST[1:], entrant("winner", 20.0, 1.3))) == ["baseline"]


def test_an_engine_that_keeps_the_coordinator_waiting_beside_its_calls_is_no_liar() -> None:
    # spinning threads on every core: 6 ms of waiting lie within the burst, and nothing is left outside of it
    spinning = entrant("winner", 20.0, 0.7)
    for burst in spinning.bursts:
        burst.own_wait_ns = 6 * MS
    assert spinning.bursts[0].least_gap_ns < -5 * MS
    assert accused(*HONEST, spinning) == {}


def test_waiting_is_no_excuse_for_more_than_the_wait() -> None:
    liar = entrant("winner", 60.0, 1.3, factor=0.8)  # 12 ms stolen, 6 of them beside a wait
    for burst in liar.bursts:
        burst.own_wait_ns = 6 * MS
    assert list(accused(*HONEST, liar)) == ["winner"]


def test_one_disturbed_burst_does_not_make_a_process_an_outlier() -> None:
    winner = entrant("winner", 20.0, 1.3)
    winner.bursts[3].outside_ns += 50 * MS
    assert accused(*HONEST, winner) == {}


def test_two_contenders_or_few_bursts_accuse_nobody() -> None:
    assert accused(HONEST[0], entrant("winner", 20.0, 1.3, factor=0.8)) == {}
    assert accused(*HONEST, entrant("winner", 20.0, 1.3, factor=0.8, count=3)) == {}


def test_nobody_is_accused_while_other_work_wants_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaps, "busy", lambda: True)
    assert accused(*HONEST, entrant("winner", 20.0, 1.3, factor=0.8)) == {}


class Liar(LocalChild):
    def call(self, op: str, arrays: Any = (), **options: Any) -> Reply:
        reply = super().call(op, arrays, **options)
        if op == "benchmarking.go":
            return Reply(reply.fields, [(reply.arrays[0] * 0.8).astype(np.int64)])
        return reply


def test_in_a_set_the_liar_drops_out_and_the_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    # children of this process share its thread: what it waited while it slept must not be taken off the gap
    monkeypatch.setattr(bursts, "own_wait_ns", lambda: 0)
    monkeypatch.setattr(bursts, "MAX_CALLS", 3)
    rng = np.random.default_rng(0)

    def sleeper(x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.006)
        return x * 2

    def start(kind: type[LocalChild]) -> Any:
        return lambda: kind(TorchContender(sleeper))

    starts = {"baseline": start(LocalChild), "again": start(LocalChild), "peer": start(LocalChild)}
    one = measure_set(
        {**starts, "winner": start(Liar)},
        lambda: [rng.standard_normal((4, 3)).astype(np.float32)],
        baseline="baseline",
        rng=rng,
        rounds=6,
        warm_up_s=0.1,
    )
    assert set(one.entrants) == set(starts)
    # 3 calls of 6 ms, of which it keeps 3.6 ms to itself; where other delays come to that, single bursts are refused
    assert one.failed["winner"].id in {"benchmarking:user:gap", "benchmarking:user:clock"}
