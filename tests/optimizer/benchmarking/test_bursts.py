from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import torch

from optimizer.benchmarking import bursts
from optimizer.benchmarking.bursts import Entrant, Refused, clock_reason, try_burst
from optimizer.benchmarking.rounds import run_round
from optimizer.errors import FuseworksError
from optimizer.sandbox import Reply
from tests.optimizer.verifying.local import LocalChild, TorchContender

RNG = np.random.default_rng(0)


def draw() -> list[np.ndarray]:
    return [RNG.standard_normal((4, 3)).astype(np.float32)]


def slow(seconds: float) -> TorchContender:
    def work(x: torch.Tensor) -> torch.Tensor:
        time.sleep(seconds)
        return x * 2

    return TorchContender(work)


class Liar(LocalChild):
    """Reports `factor` times what its calls took; honest again after `lies` bursts."""

    def __init__(self, contender: Any, factor: float, lies: int = 1000) -> None:
        super().__init__(contender)
        self.factor, self.lies = factor, lies

    def call(self, op: str, arrays: Any = (), **options: Any) -> Reply:
        reply = super().call(op, arrays, **options)
        if op == "benchmarking.go" and self.lies > 0:
            self.lies -= 1
            return Reply(reply.fields, [(reply.arrays[0] * self.factor).astype(np.int64)])
        return reply


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else this machine does: no pauses, and no allowance for a busy machine."""
    monkeypatch.setattr(bursts, "REFUSAL_PAUSE_S", 0.0)
    monkeypatch.setattr(bursts, "busy", lambda: False)


def test_times_must_add_up_within_five_milliseconds_and_three_percent() -> None:
    ms = 1_000_000
    assert clock_reason(95 * ms, 100 * ms) is None
    assert clock_reason(92 * ms, 100 * ms) is None
    assert clock_reason(91 * ms, 100 * ms) == "91.0 ms inside, 100.0 ms outside"
    assert clock_reason(109 * ms, 100 * ms) == "109.0 ms inside, 100.0 ms outside"
    assert clock_reason(1 * ms, 5 * ms) is None
    assert clock_reason(80 * ms, 100 * ms, own_wait=13 * ms) is None
    assert clock_reason(80 * ms, 100 * ms, own_wait=11 * ms) is not None
    assert clock_reason(120 * ms, 100 * ms, own_wait=50 * ms) is not None


def test_a_burst_gives_one_time_for_each_call_and_answers_for_the_staged_inputs() -> None:
    entrant = Entrant("honest", LocalChild(slow(0.002)))  # type: ignore[arg-type]
    sets = [draw() for _ in range(5)]
    burst = try_burst(entrant, draw, sets, [3])
    assert burst.calls_ns.shape == (5,)
    assert (burst.calls_ns > 1_900_000).all()
    assert burst.calls_ns.sum() + burst.read_ns <= burst.outside_ns
    assert burst.read_ns > 0
    [answer] = bursts.answers(entrant, burst, [3])
    np.testing.assert_array_equal(answer[0], sets[3][0] * 2)


class ReadLate(TorchContender):
    """Does its work when the answer is read."""

    def outputs(self, native: Any) -> list[np.ndarray]:
        time.sleep(0.02)
        return super().outputs(native)


def test_work_that_is_left_to_the_reading_is_seen_in_the_reading() -> None:
    entrant = Entrant("late", LocalChild(ReadLate(lambda x: x * 2)))  # type: ignore[arg-type]
    burst = try_burst(entrant, draw, [draw() for _ in range(4)], [1])
    assert burst.read_ns > 19_000_000 and burst.calls_ns.sum() < 19_000_000
    with pytest.raises(Refused):
        bursts.answers(entrant, burst, [1])
    assert entrant.refusals == 1


def test_an_answer_that_is_another_one_after_the_burst_is_told() -> None:
    buffer = torch.zeros(4, 3)
    entrant = Entrant("shared", LocalChild(TorchContender(lambda x: buffer.copy_(x))))  # type: ignore[arg-type]
    burst = try_burst(entrant, draw, [draw() for _ in range(3)], [0])
    with pytest.raises(FuseworksError) as caught:
        bursts.answers(entrant, burst, [0])
    assert caught.value.id == "benchmarking:user:answers-changed"
    assert "an answer was another one once the burst was over" in caught.value.message
    burst = try_burst(entrant, draw, last := [draw() for _ in range(3)], [2])
    [answer] = bursts.answers(entrant, burst, [2])
    np.testing.assert_array_equal(answer[0], last[2][0])


@pytest.mark.parametrize("factor", [0.3, 2.0])
def test_a_child_that_lies_about_time_is_refused_and_ends_its_candidate(
    factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    entrant = Entrant("liar", Liar(slow(0.01), factor))  # type: ignore[arg-type]
    # a child of this process shares its thread, so what it waited for must not excuse it
    monkeypatch.setattr(bursts, "own_wait_ns", lambda: 0)
    with pytest.raises(FuseworksError) as caught:
        run_round({"liar": entrant}, draw, 4, rng=RNG)
    assert caught.value.id == "benchmarking:user:clock"
    assert caught.value.place == "liar"
    assert caught.value.side == "user"
    assert entrant.bursts == []


def test_on_a_busy_machine_it_is_tried_longer_and_the_machine_is_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bursts, "busy", lambda: True)
    monkeypatch.setattr(bursts, "MAX_REFUSALS_BUSY", 8)
    monkeypatch.setattr(bursts, "own_wait_ns", lambda: 0)
    late = Entrant("late", Liar(slow(0.005), 0.01, lies=6))  # type: ignore[arg-type]
    run_round({"late": late}, draw, 3, rng=RNG)
    assert late.refusals >= 6
    with pytest.raises(FuseworksError) as caught:
        run_round({"liar": Entrant("liar", Liar(slow(0.005), 0.01))}, draw, 3, rng=RNG)  # type: ignore[arg-type]
    assert (caught.value.id, caught.value.side) == ("benchmarking:ours:busy", "ours")


def test_a_refused_burst_leaves_no_sample_and_counts() -> None:
    entrant = Entrant("disturbed", Liar(slow(0.01), 0.3, lies=1))  # type: ignore[arg-type]
    with pytest.raises(Refused):
        try_burst(entrant, draw, [draw() for _ in range(4)])
    assert (entrant.refusals, entrant.bursts) == (1, [])


def test_what_passes_outside_of_the_calls_is_a_range_where_the_coordinator_waited() -> None:
    burst = bursts.Burst(np.array([4_000_000, 5_000_000]), 11_000_000, 0, 0, own_wait_ns=700_000)
    assert (burst.least_gap_ns, burst.gap_ns) == (1_300_000, 2_000_000)


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ([], "no times for 2 calls"),
        ([np.array([5], dtype=np.int64)], "no times for 2 calls"),
        ([np.array([5, 5], dtype=np.float32)], "no times for 2 calls"),
        ([np.array([5, 0], dtype=np.int64)], "a call that took no time"),
    ],
)
def test_malformed_times_are_a_bad_answer(arrays: list[np.ndarray], text: str) -> None:
    class Broken(LocalChild):
        def call(self, op: str, given: Any = (), **options: Any) -> Reply:
            reply = super().call(op, given, **options)
            return Reply(reply.fields, arrays) if op == "benchmarking.go" else reply

    with pytest.raises(FuseworksError, match=text):
        try_burst(Entrant("broken", Broken(slow(0.0))), draw, [draw(), draw()])  # type: ignore[arg-type]


def test_every_timed_call_sees_inputs_that_were_never_called_before() -> None:
    seen: list[bytes] = []

    def remember(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.numpy().tobytes())
        return x

    entrant = Entrant("memoiser", LocalChild(TorchContender(remember)))  # type: ignore[arg-type]
    for _ in range(3):
        try_burst(entrant, draw, [draw() for _ in range(4)])
    assert len(seen) == 3 * (4 + bursts.WARM_CALLS)
    assert len(set(seen)) == len(seen)


def test_warm_up_ends_when_calls_are_stable_and_shows_the_clocks_cost() -> None:
    entrant = Entrant("steady", LocalChild(slow(0.003)))  # type: ignore[arg-type]
    started = time.perf_counter()
    bursts.warm_up(entrant, draw, max_s=20.0)
    assert time.perf_counter() - started < 19.0
    assert entrant.stable
    assert 2_900_000 < entrant.median_ns < 30_000_000
    assert 0 < entrant.clock_ns < 100_000


def test_warm_up_ends_with_its_time_when_calls_never_settle() -> None:
    calls = iter(range(10**6))

    def restless(x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.001 * (1 + next(calls) // 5 % 2 * 4))
        return x

    entrant = Entrant("restless", LocalChild(TorchContender(restless)))  # type: ignore[arg-type]
    bursts.warm_up(entrant, draw, max_s=0.3)
    assert not entrant.stable


def test_calls_per_burst_fill_sixty_milliseconds_of_the_slowest() -> None:
    fast, slowest = (Entrant(n, None, median_ns=ns) for n, ns in (("a", 1_000_000), ("b", 6_000_000)))  # type: ignore[arg-type]
    assert bursts.calls_per_burst([fast, slowest], 100) == 10
    assert bursts.calls_per_burst([fast], 100) == bursts.MAX_CALLS
    slowest.median_ns = 90_000_000
    assert bursts.calls_per_burst([slowest], 100) == bursts.MIN_CALLS
    assert bursts.calls_per_burst([fast], 8 << 20) == 8
