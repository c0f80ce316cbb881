"""The first comparison: early, of fresh processes, with an interval and no verdict, and of no cost to a short run."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from optimizer.benchmarking.statistics import student_interval
from optimizer.coordinator import first_comparison
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.first_comparison import LEAST_PAIRS, MOST_PAIRS, compare_first
from optimizer.errors import FuseworksError
from optimizer.result import Candidate, FirstComparison, RunStatus
from optimizer.spec import BackendStep, RuntimeSettings
from tests.optimizer.coordinator.support import context

CANDIDATE = Candidate(name="aot_inductor + rewrites", steps=[BackendStep(backend="aot_inductor")])
LOGS = [0.40, 0.44, 0.42, 0.46, 0.41, 0.43]


class Machine:
    """Sets of processes that each take `set_s` of the run's time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, *, began_s: float = 30.0, **policy: Any) -> None:
        self.events: list[Any] = []
        self.elapsed_s, self.set_s, self.sets = began_s, 5.0, 0
        self.error: FuseworksError | None = None
        made = context(tmp_path, self.events, **policy)
        monkeypatch.setattr(made.events, "elapsed_s", lambda: self.elapsed_s)
        monkeypatch.setattr(first_comparison, "measure_set", self.measure)
        monkeypatch.setattr(first_comparison, "starter", lambda *_: None)
        monkeypatch.setattr(first_comparison, "drawing", lambda *_: None)
        monkeypatch.setattr(first_comparison, "check_of", lambda *_: None)
        self.bench: Any = SimpleNamespace(context=made, answer=Answer(), baseline=lambda settings: None)

    def measure(self, starts: Any, draw: Any, **_: Any) -> Any:
        if self.error is not None:
            raise self.error
        self.elapsed_s += self.set_s
        self.sets += 1
        log = LOGS[self.sets - 1]
        return SimpleNamespace(seconds=self.set_s, log_speedup=lambda base, other: log)

    def __call__(self) -> FirstComparison | None:
        compare_first(self.bench, CANDIDATE, RuntimeSettings())
        found: FirstComparison | None = self.bench.answer.first_comparison
        return found


def test_it_is_told_with_its_interval_as_soon_as_it_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    machine = Machine(monkeypatch, tmp_path)
    found = machine()
    assert found is not None
    low, speedup, high = student_interval(LOGS[: found.pairs])
    assert (found.speedup, found.interval.low, found.interval.high) == (speedup, low, high)
    assert found.speedup == pytest.approx(math.exp(sum(LOGS[: found.pairs]) / found.pairs))
    (event,) = [event for event in machine.events if "first_comparison" in event.data]
    assert FirstComparison.model_validate(event.data["first_comparison"]) == found
    assert "no verdict yet" in event.message and event.candidate == CANDIDATE.name
    result = machine.bench.answer.result(machine.bench.context, RunStatus.SUCCEEDED)
    assert (result.first_comparison, result.first_comparison_s) == (found, found.at_s)
    assert result.verdict is None


@pytest.mark.parametrize(
    ("began_s", "pairs"), [(20.0, MOST_PAIRS), (34.0, 5), (38.0, LEAST_PAIRS), (100.0, LEAST_PAIRS)]
)
def test_it_takes_as_many_pairs_as_fit_into_the_first_minute_and_four_at_least(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, began_s: float, pairs: int
) -> None:
    found = Machine(monkeypatch, tmp_path, began_s=began_s)()
    assert found is not None and found.pairs == pairs
    assert found.at_s == began_s + 5.0 * pairs


@pytest.mark.parametrize(("began_s", "budget_s"), [(121.0, 480), (30.0, 239)])
def test_it_is_not_begun_late_or_in_a_short_budget(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, began_s: float, budget_s: float
) -> None:
    machine = Machine(monkeypatch, tmp_path, began_s=began_s, budget_s=budget_s)
    assert machine() is None
    assert (machine.sets, machine.events) == (0, [])


@pytest.mark.parametrize(("set_s", "sets"), [(15.0, LEAST_PAIRS), (15.1, 1)])
def test_where_a_pair_takes_long_it_is_left_after_the_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, set_s: float, sets: int
) -> None:
    machine = Machine(monkeypatch, tmp_path)
    machine.set_s = set_s
    found = machine()
    assert machine.sets == sets
    assert (found is None) == (sets == 1)
    if found is None:
        assert machine.events[-1].message == "No first comparison: a pair of processes takes too long here"


def test_a_candidate_that_fails_meanwhile_costs_the_comparison_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    machine = Machine(monkeypatch, tmp_path)
    machine.error = FuseworksError("child:user:crashed", signal="SIGSEGV")
    assert machine() is None
    assert machine.events[-1].message.startswith("No first comparison: The process")


def test_a_busy_machine_ends_the_run_as_it_does_everywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    machine = Machine(monkeypatch, tmp_path)
    machine.error = FuseworksError("benchmarking:ours:busy", name="c", refusals=60, load=9.0, cores=2)
    with pytest.raises(FuseworksError, match="busy"):
        machine()
