"""Selection is not judgement: the best of twenty equal candidates leads the screening, and nothing of that is left."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from optimizer.benchmarking import bursts, gaps
from optimizer.coordinator import judging
from optimizer.result import Candidate
from optimizer.spec import BackendStep, Limits, RuntimeSettings
from tests.optimizer.benchmarking.simulated import SimulatedChild, drawer
from tests.optimizer.coordinator.support import context

CANDIDATES, TRIALS, PROCESS_SD = 20, 20, 0.02


@pytest.fixture
def bench(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Every contender is as fast as the baseline; each of its processes has an effect of its own."""
    rng = np.random.default_rng(11)
    monkeypatch.setattr(bursts, "CLOCK_SLACK_NS", 10**12)
    monkeypatch.setattr(gaps, "GAP_SLACK_NS", 10**12)
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # processes start in order, so that the seed decides
    monkeypatch.setattr(judging, "starter", lambda *_: lambda: SimulatedChild(rng, 1.0, PROCESS_SD, 0.01))
    monkeypatch.setattr(judging, "drawing", lambda *_: drawer(rng))
    monkeypatch.setattr(judging, "_believe", lambda *_: None)
    made = context(tmp_path, max_pairs=6)
    monkeypatch.setattr(made, "rng", lambda stream: rng)
    return SimpleNamespace(
        context=made,
        reference=None,
        workload=SimpleNamespace(limits=Limits()),
        baseline=lambda settings: Candidate(name="baseline", steps=[BackendStep(backend="eager")]),
        verifier=SimpleNamespace(agreement=lambda precision: lambda mine, base: None),
    )


def test_what_the_screening_gives_the_best_of_twenty_equal_candidates_is_gone_from_its_judgement(bench: Any) -> None:
    names = [f"c{i}" for i in range(CANDIDATES)]
    candidates = {name: Candidate(name=name, steps=[BackendStep(backend="eager")]) for name in names}
    screened, judged, faster = [], [], 0
    for _ in range(TRIALS):
        found = judging.final_screening(bench, list(candidates.values()), RuntimeSettings())
        best = max(found.speedups, key=lambda name: found.speedups[name])
        screened.append(np.log(found.speedups[best]))
        outcome = judging.judge_winner(bench, candidates[best], None, RuntimeSettings(), deadline=float("inf"))
        comparison = outcome.comparison("baseline", "winner")
        assert comparison is not None
        judged.append(np.mean(comparison.log_speedups))
        faster += comparison.verdict == "faster"
    # the largest of twenty effects of 2 % is near 3.7 %; six pairs of two effects each stray by 1.2 %, twenty runs of
    # them by 0.26 %, and four times that is allowed
    assert np.mean(screened) > 0.025, "the selection effect must be there to be removed"
    assert abs(np.mean(judged)) < 4 * PROCESS_SD * np.sqrt(2 / 6 / TRIALS)
    assert faster <= 1
