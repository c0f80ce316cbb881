"""What settings of a process would change is measured there: idle CPU time, threads, denormals."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import torch

from optimizer import denormals
from optimizer.profiling import levers


def test_a_process_that_rests_after_a_call_uses_no_cpu_time() -> None:
    assert levers.idle_cpu_ms(lambda: None) < 5.0


def test_a_thread_that_spins_after_a_call_is_seen() -> None:
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            pass

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        used_ms = levers.idle_cpu_ms(lambda: None)
    finally:
        stop.set()
        thread.join(30)
    assert used_ms > 2.0, "of the 20 ms of each pause, on however busy a machine"


@pytest.mark.parametrize(("threads", "others"), [(1, []), (2, [1]), (8, [1, 4]), (3, [1])])
def test_one_thread_and_half_of_them_are_tried_beside_all(threads: int, others: list[int]) -> None:
    assert levers.thread_counts(threads) == others


@pytest.fixture
def as_before() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("as_before")
@pytest.mark.skipif(denormals.unavailable() is not None, reason=str(denormals.unavailable()))
def test_each_setting_is_in_force_while_it_is_timed_and_none_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """What denormals cost differs among processors, so that a clock of the test's own tells it."""
    extra_ms = iter([0.5, 2.5])

    def timed(call: levers.Call, calls: int) -> float:
        each_ms = {1: 6.0, 2: 4.0, 4: 3.0}[torch.get_num_threads()]
        return each_ms if denormals.flushed() or len(seen) < 3 else each_ms + next(extra_ms)

    seen: list[float] = []

    def noted(call: levers.Call, calls: int) -> float:
        ms = timed(call, calls)
        seen.append(ms)
        return ms

    monkeypatch.setattr(levers, "_median_ms", noted)
    found = levers.of_torch(lambda: None, 4, 3.0)
    assert found.threads_ms == {4: 3.0, 1: 6.0, 2: 4.0}
    assert seen[3:] == [6.5, 6.0, 8.5, 6.0], "kept, flushed, kept, flushed, all on one thread"
    assert found.denormals_gain == pytest.approx(6.5 / 6.0), "the smaller of the two"
    assert torch.get_num_threads() == 4
    assert not denormals.flushed()


@pytest.mark.usefixtures("as_before")
def test_a_slow_model_is_called_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(denormals, "unavailable", lambda: "not here")
    calls = []
    found = levers.of_torch(lambda: calls.append(time.monotonic()), 2, call_ms=10_000.0)
    assert len(calls) == 2 * (1 + levers.LEAST_CALLS)
    assert found.denormals_gain is None
