"""What the final screening tells: speedups, failures, and what a contender of the judgement will cost."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from optimizer.benchmarking.bursts import Burst, Entrant
from optimizer.benchmarking.sets import MeasuredSet
from optimizer.coordinator import judging
from optimizer.errors import FuseworksError
from optimizer.result import Candidate
from optimizer.spec import BackendStep, RuntimeSettings
from tests.optimizer.coordinator.support import context

CRASHED = FuseworksError("child:user:crashed", signal="SIGSEGV")


def test_finalists_are_told_with_their_speedups_and_what_one_of_them_cost(tmp_path, monkeypatch):
    def measure_set(starts, draw, *, baseline, rng, rounds, checks):
        times_ms = {"baseline": 12.0, "quick": 4.0, "slow": 24.0}
        bursts = {name: Burst(np.array([ms * 1e6], dtype=np.int64), 0, 0, 0) for name, ms in times_ms.items()}
        assert set(starts) == {*times_ms, "broken"} and rounds == 8
        entrants = {name: Entrant(name, None, bursts=[burst]) for name, burst in bursts.items()}
        return MeasuredSet(entrants, {"broken": CRASHED}, seconds=16.0, load_average=0.0)

    monkeypatch.setattr(judging, "measure_set", measure_set)
    baseline = Candidate(name="baseline", steps=[BackendStep(backend="eager")])
    bench = SimpleNamespace(
        context=context(tmp_path),
        shop=SimpleNamespace(build=lambda candidate: candidate),
        baseline=lambda settings: baseline,
        verifier=SimpleNamespace(agreement=lambda precision: None),
        workload=SimpleNamespace(sizes=dict),
        captured=SimpleNamespace(samples=None),
    )
    finalists = [Candidate(name=name, steps=[BackendStep(backend="eager")]) for name in ("quick", "slow", "broken")]
    found = judging.final_screening(bench, finalists, RuntimeSettings())
    assert found.speedups == pytest.approx({"quick": 3.0, "slow": 0.5})
    assert found.failures == {"broken": CRASHED}
    # four contenders took 16 s for eight rounds; a judgement has ten
    assert found.contender_s == pytest.approx(5.0)
    assert judging.least_s(5.0) == 6 * 5 * 5.0
