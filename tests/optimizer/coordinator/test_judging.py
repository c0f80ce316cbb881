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
        assert set(starts) == {*times_ms, "broken"} and rounds == 9
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
    # four contenders took 16 s with nine rounds, two fifths of it for these; a judgement has fifteen
    assert found.contender_s == pytest.approx(4.0 * (0.6 + 0.4 * 15 / 9))
    assert judging.least_s(5.0) == 6 * 5 * 5.0


@pytest.mark.parametrize(
    ("speedups", "peer", "rounds"),
    [
        ({"winner": 2.0, "engine": 1.5}, "engine", 9),  # 2.0 and 1.33: clear of both
        ({"winner": 2.0, "engine": 1.7}, "engine", 15),  # 1.18 over the engine is near
        ({"winner": 1.2, "engine": 0.9}, "engine", 15),
        ({"winner": 1.3}, None, 9),
        ({}, None, 15),
    ],
)
def test_what_the_finalists_showed_fixes_how_many_rounds_a_set_of_the_judgement_has(speedups, peer, rounds):
    winner, engine = (Candidate(name=name, steps=[BackendStep(backend="eager")]) for name in ("winner", "engine"))
    screening = judging.FinalScreening(speedups, {}, 1.0)
    assert judging.rounds_for(screening, winner, engine if peer else None) == rounds


class Finals:
    """Finalists whose calls take so many milliseconds in the first set, and in the second."""

    def __init__(self, tmp_path, monkeypatch, first_ms, second_ms=None, peers=(), fails_second=()):
        self.sets, self.times_ms = [], [first_ms, second_ms or first_ms]
        self.fails_second = fails_second
        monkeypatch.setattr(judging, "measure_set", self.measure)
        monkeypatch.setattr(judging, "starter", lambda *_: None)
        monkeypatch.setattr(judging, "check_of", lambda *_: None)
        self.bench = SimpleNamespace(
            context=context(tmp_path), baseline=lambda settings: None, workload=None, captured=None
        )
        monkeypatch.setattr(judging, "drawing", lambda *_: None)
        backend = [BackendStep(backend="eager")]
        self.finalists = [Candidate(name=name, steps=backend, peer=name in peers) for name in first_ms]

    def measure(self, starts, draw, **_):
        times_ms = {"baseline": 12.0, **self.times_ms[len(self.sets)]}
        self.sets.append(sorted(set(starts) - {"baseline"}))
        failing = self.fails_second if len(self.sets) == 2 else ()
        bursts = {name: Burst(np.array([times_ms[name] * 1e6], dtype=np.int64), 0, 0, 0) for name in starts}
        entrants = {name: Entrant(name, None, bursts=[one]) for name, one in bursts.items() if name not in failing}
        return MeasuredSet(entrants, dict.fromkeys(failing, CRASHED), seconds=16.0, load_average=0.0)

    def __call__(self):
        return judging.final_screening(self.bench, self.finalists, RuntimeSettings())


def test_finalists_that_one_set_does_not_tell_apart_are_measured_once_more_and_the_others_are_not(
    tmp_path, monkeypatch
):
    finals = Finals(tmp_path, monkeypatch, {"a": 4.0, "b": 4.1, "c": 6.0}, {"a": 4.0, "b": 3.0})
    found = finals()
    assert finals.sets == [["a", "b", "c"], ["a", "b"]]
    # the mean of the logarithms of both sets
    assert found.speedups == pytest.approx({"a": 3.0, "b": (12 / 4.1 * 12 / 3.0) ** 0.5, "c": 2.0})
    assert found.contender_s == pytest.approx(16.0 / 4 * (0.6 + 0.4 * 15 / 9)), (
        "as the first set tells it, which has all in it"
    )


def test_a_clear_leader_and_a_clear_best_peer_need_no_second_set(tmp_path, monkeypatch):
    finals = Finals(tmp_path, monkeypatch, {"ours": 4.0, "p": 6.0, "q": 7.0}, peers=("p", "q"))
    finals()
    assert len(finals.sets) == 1


def test_peers_that_are_near_to_each_other_are_told_apart_though_ours_leads(tmp_path, monkeypatch):
    finals = Finals(tmp_path, monkeypatch, {"ours": 4.0, "p": 6.0, "q": 6.1}, peers=("p", "q"))
    finals()
    assert finals.sets[1] == ["p", "q"]


def test_no_more_than_four_are_measured_again(tmp_path, monkeypatch):
    finals = Finals(tmp_path, monkeypatch, dict.fromkeys("abcdefg", 4.0))
    finals()
    assert len(finals.sets[1]) == 4


def test_one_that_fails_in_the_second_set_has_failed(tmp_path, monkeypatch):
    found = Finals(tmp_path, monkeypatch, {"a": 4.0, "b": 4.1}, fails_second=("b",))()
    assert found.failures == {"b": CRASHED}
    assert set(found.speedups) == {"a"}
