"""All peers in one judgement: who takes part, who is the best peer then, and what is told of each."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from optimizer.benchmarking.bursts import Burst, Entrant
from optimizer.benchmarking.judge import JudgeOutcome
from optimizer.coordinator import deliver, judging, rivals
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.judging import BASELINE, DEPLOYED, PEER, WINNER
from optimizer.errors import FuseworksError
from optimizer.result import (
    Candidate,
    Comparison,
    Evaluation,
    EvaluationStatus,
    Interval,
    OutputNumerics,
    Verdict,
    Verification,
)
from optimizer.spec import BackendStep, PassStep, PrecisionStep, RuntimeSettings, RuntimeStep
from tests.optimizer.coordinator.support import context

TUNED = RuntimeSettings(huge_pages=True)
FASTER, SAME, SLOWER = Verdict.FASTER, Verdict.SAME, Verdict.SLOWER


def candidate(name: str, *, peer: bool = True) -> Candidate:
    backend = name.split()[0]
    passes = [PassStep(pass_="fold_batch_norm")] if "rewrites" in name else []
    precision = [PrecisionStep(precision="bfloat16")] if "bfloat16" in name else []
    steps = [RuntimeStep(runtime=TUNED), *passes, *precision, BackendStep(backend=backend)]
    return Candidate(name=name, steps=steps, peer=peer)


OURS = candidate("aot_inductor + rewrites", peer=False)
OURS_LOW = candidate("aot_inductor + bfloat16 + rewrites", peer=False)
AOT, OPENVINO, ORT = candidate("aot_inductor"), candidate("openvino"), candidate("onnxruntime")
OPENVINO_LOW = candidate("openvino + bfloat16")


def numerics(error: float, allowed: float = 1e-5) -> OutputNumerics:
    return OutputNumerics(
        output="ctr", dtype="float32", error=error, baseline_error=1e-7, allowed=allowed, max_abs_error=error,
        samples=64, passed=True,
    )  # fmt: skip


def passed(*candidates: Candidate) -> Answer:
    answer = Answer()
    for at, one in enumerate(candidates, 1):
        outputs = [numerics(at * 1e-7), numerics(at * 1e-8)]
        verification = Verification(passed=True, outputs=outputs)
        answer.file(Evaluation(candidate=one, status=EvaluationStatus.PASSED, verification=verification))
    return answer


def failure(answer: Answer, one: Candidate) -> None:
    answer.file(Evaluation(candidate=one, status=EvaluationStatus.CRASHED, reason="it crashed"))


# ---- who takes part ------------------------------------------------------------------------------------------------


def test_every_peer_that_passed_is_judged_beside_the_favourite() -> None:
    answer = passed(OURS, AOT, OPENVINO, ORT)
    assert rivals.beside(answer, OURS, AOT) == [OPENVINO, ORT]
    assert rivals.beside(answer, OURS, None) == [AOT, OPENVINO, ORT]


def test_a_peer_that_failed_and_the_winner_itself_are_not() -> None:
    answer = passed(OURS, AOT, OPENVINO, ORT)
    failure(answer, ORT)
    assert rivals.beside(answer, AOT, AOT) == [OPENVINO]


def test_a_peer_of_lower_precision_than_the_winner_is_no_rival_and_one_of_higher_is() -> None:
    answer = passed(OURS, OURS_LOW, AOT, OPENVINO_LOW)
    assert rivals.beside(answer, OURS, None) == [AOT]
    assert rivals.beside(answer, OURS_LOW, None) == [AOT, OPENVINO_LOW]


# ---- the judgement -------------------------------------------------------------------------------------------------


@pytest.fixture
def bench(tmp_path: Any) -> Any:
    made = context(tmp_path, rivals="all")
    return SimpleNamespace(
        context=made,
        answer=passed(OURS, AOT, OPENVINO, ORT),
        baseline=lambda settings: Candidate(name="baseline", steps=[BackendStep(backend="eager")], peer=True),
        workload=SimpleNamespace(sizes=dict, mode="inference", limits=None),
        shop=SimpleNamespace(build=lambda one: one),
        verifier=SimpleNamespace(agreement=lambda precision: None),
        captured=SimpleNamespace(samples=None),
        reference=None,
        roofs={},
    )


def test_the_judgement_asks_for_the_winner_against_each_peer_and_waits_for_no_rivals_own_speedup(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def judge(starts: Any, pairs: Any, draw: Any, **options: Any) -> JudgeOutcome:
        asked.update(starts=list(starts), pairs=pairs, checks=set(options["checks"]))
        samples: dict[str, list[Entrant]] = {role: [] for role in starts}
        return JudgeOutcome([], samples, {}, 0.0, [], 6, 1, [])

    monkeypatch.setattr(judging, "judge", judge)
    monkeypatch.setattr(judging, "drawing", lambda *_: None)
    monkeypatch.setattr(judging, "check_memory", lambda *_: None)
    monkeypatch.setattr(judging, "_believe", lambda *_: None)
    judging.judge_winner(bench, OURS, AOT, TUNED, 0.0, [OPENVINO, ORT])
    assert set(asked["starts"]) == {WINNER, BASELINE, DEPLOYED, PEER, "openvino", "onnxruntime"}
    assert asked["checks"] == {WINNER, PEER, "openvino", "onnxruntime"}
    awaited = {(pair.base, pair.other) for pair in asked["pairs"] if pair.awaited}
    assert awaited == {
        (BASELINE, WINNER), (DEPLOYED, WINNER), (BASELINE, PEER), (DEPLOYED, PEER),
        (PEER, WINNER), ("openvino", WINNER), ("onnxruntime", WINNER),
    }  # fmt: skip
    others = {(pair.base, pair.other) for pair in asked["pairs"]} - awaited
    assert others == {(base, other) for base in (BASELINE, DEPLOYED) for other in ("openvino", "onnxruntime")}


def test_as_users_run_them_each_peer_is_measured_in_default_settings_as_well(
    bench: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    asked: dict[str, Any] = {}

    def judge(starts: Any, pairs: Any, draw: Any, **options: Any) -> JudgeOutcome:
        asked.update(starts=starts, pairs=[(pair.base, pair.other) for pair in pairs if not pair.awaited])
        return JudgeOutcome([], {role: [] for role in starts}, {}, 0.0, [], 6, 1, [])

    bench.context = context(tmp_path, rivals="all_as_run")
    loaded: list[Any] = []
    bench.shop.load = lambda built, settings: loaded.append((built.name, settings))
    for name in ("drawing", "check_memory", "_believe"):
        monkeypatch.setattr(judging, name, lambda *_: None)
    monkeypatch.setattr(judging, "judge", judge)
    judging.judge_winner(bench, OURS, AOT, TUNED, 0.0, [OPENVINO])
    seconds = [role for role in asked["starts"] if role.endswith(judging.AS_RUN)]
    assert seconds == ["best_peer (default settings)", "openvino (default settings)"]
    for role in seconds:
        asked["starts"][role]()
    assert loaded == [("aot_inductor", RuntimeSettings()), ("openvino", RuntimeSettings())]
    assert {(role, WINNER) for role in seconds} <= set(asked["pairs"])
    assert rivals.most_judged(bench.context.spec.policy, [OPENVINO]) == 4


def test_more_peers_make_the_shortest_judgement_longer() -> None:
    assert judging.least_s(2.0) == judging.least_s(2.0, 1) == 6 * 5 * 2.0
    assert judging.least_s(2.0, 3) == 6 * 7 * 2.0


# ---- what it says --------------------------------------------------------------------------------------------------

# per-set log-speedups over the baseline: means 0.5, 0.3, 0.4 and 0.1
LOGS = {
    WINNER: [0.49, 0.51, 0.5, 0.5, 0.52, 0.48],
    PEER: [0.3, 0.31, 0.29, 0.3, 0.28, 0.32],
    "openvino": [0.4, 0.41, 0.39, 0.4, 0.42, 0.38],
    "onnxruntime": [0.1, 0.11, 0.09, 0.1, 0.1, 0.1],
}


def compared(base: str, other: str, logs: list[float], verdict: Verdict = FASTER) -> Comparison:
    speedup = math.exp(np.mean(logs))
    return Comparison(
        base=base, other=other, speedup=speedup, interval=Interval(low=speedup - 0.1, high=speedup + 0.1),
        verdict=verdict, noise_floor=0.02, pairs=len(logs), looks=1, same_settings=base != DEPLOYED, log_speedups=logs,
    )  # fmt: skip


def entrant(role: str, call_ns: int) -> Entrant:
    calls = np.full(3, call_ns, dtype=np.int64)
    return Entrant(role, None, bursts=[Burst(calls, int(calls.sum()), 0, 0)])  # type: ignore[arg-type]


def outcome(over_peers: Verdict = FASTER, **changed: list[float]) -> JudgeOutcome:
    logs = {**LOGS, **changed}
    comparisons = [compared(BASELINE, role, values) for role, values in logs.items()]
    for role in set(logs) - {WINNER}:
        over = np.subtract(logs[WINNER], logs[role]).tolist()
        comparisons.append(compared(role, WINNER, over, over_peers))
    samples = {}
    for role, values in {BASELINE: [0.0] * 6, **logs}.items():
        samples[role] = [entrant(role, int(12e6 / math.exp(value))) for value in values]
    return JudgeOutcome(comparisons, samples, {}, 0.02, [0.01, -0.01], 6, 1, [0.5], [])


@pytest.fixture
def judged(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("optimizer.inputs.items", lambda workload, sizes: 1)
    monkeypatch.setattr(deliver, "limit_checks", lambda *_: [])

    def judge(found: JudgeOutcome, winner: Candidate = OURS, peer: Candidate | None = AOT) -> Answer:
        monkeypatch.setattr(deliver, "judge_winner", lambda *_: found)
        beside = rivals.beside(bench.answer, winner, peer)
        deliver.judged(bench, winner, peer, deadline=0.0, beside=beside)
        return bench.answer  # type: ignore[no-any-return]

    return judge


def test_the_best_peer_is_the_fastest_in_the_judgement_and_not_the_favourite(judged: Any) -> None:
    answer = judged(outcome())
    assert answer.best_peer.name == "openvino"
    assert answer.best_peer.speedup == pytest.approx(math.exp(0.4))
    assert answer.over_best_peer.base == "openvino"
    assert answer.over_best_peer.speedup == pytest.approx(math.exp(0.1))
    assert "The best peer is the fastest of the 3 that were judged: it was chosen after measuring." in answer.notes


def test_each_peer_is_told_with_its_speedup_ours_over_it_its_precision_and_its_worst_output(judged: Any) -> None:
    rows = judged(outcome()).judged_peers
    assert [row.name for row in rows] == ["openvino", "aot_inductor", "onnxruntime"]
    assert [row.speedup for row in rows] == pytest.approx([math.exp(0.4), math.exp(0.3), math.exp(0.1)])
    assert [row.winner_speedup for row in rows] == pytest.approx([math.exp(0.1), math.exp(0.2), math.exp(0.4)])
    assert [row.winner_verdict for row in rows] == [FASTER] * 3
    assert [(row.precision, row.error, row.allowed) for row in rows] == [
        ("float32", pytest.approx(3e-7), 1e-5), ("float32", pytest.approx(2e-7), 1e-5),
        ("float32", pytest.approx(4e-7), 1e-5),
    ]  # fmt: skip
    assert rows[0].best_ms == pytest.approx(12 / math.exp(0.4), rel=0.02)


def test_samples_and_comparisons_stay_under_the_peers_own_names(judged: Any) -> None:
    answer = judged(outcome())
    assert {"openvino", "aot_inductor", "onnxruntime", "baseline", "aot_inductor + rewrites"} == set(answer.samples)
    pairs = {(c.base, c.other) for c in answer.comparisons}
    assert {("aot_inductor", OURS.name), ("openvino", OURS.name), ("baseline", "aot_inductor")} <= pairs
    assert answer.evaluations["aot_inductor"].performance.median_ms == pytest.approx(12 / math.exp(0.3), rel=0.02)


def test_where_a_peer_takes_the_winners_place_it_is_held_against_the_others_by_the_same_sets(judged: Any) -> None:
    answer = judged(outcome(over_peers=SAME))
    assert answer.winner == "openvino"
    first, second, third = answer.judged_peers
    assert (first.name, first.winner_speedup, first.winner_interval) == ("openvino", None, None)
    assert second.winner_speedup == pytest.approx(math.exp(0.1))
    logs = np.subtract(LOGS["openvino"], LOGS[PEER])
    # 99 % over three looks; Student's t over six pairs
    half = stats.t.ppf(1 - 0.01 / 6, 5) * logs.std(ddof=1) / math.sqrt(6)
    assert second.winner_interval.low == pytest.approx(math.exp(logs.mean() - half))
    assert second.winner_interval.high == pytest.approx(math.exp(logs.mean() + half))
    assert (third.name, third.winner_verdict) == ("onnxruntime", FASTER)


def test_a_winner_that_is_a_peer_stays_the_best_peer_unless_another_is_faster(judged: Any) -> None:
    logs = {WINNER: LOGS[WINNER], "openvino": LOGS["openvino"], "onnxruntime": LOGS["onnxruntime"]}
    found = outcome(over_peers=SAME)
    found.comparisons = [c for c in found.comparisons if PEER not in (c.base, c.other)]
    found.samples.pop(PEER)
    answer = judged(found, AOT, AOT)
    assert (answer.winner, answer.best_peer.name, answer.over_best_peer) == ("aot_inductor", "aot_inductor", None)
    assert [row.name for row in answer.judged_peers] == ["aot_inductor", "openvino", "onnxruntime"]
    assert answer.judged_peers[0].speedup == pytest.approx(math.exp(np.mean(logs[WINNER])))


@pytest.mark.parametrize(("verdict", "winner"), [(SLOWER, "openvino"), (SAME, "aot_inductor")])
def test_a_peer_gives_way_to_another_only_where_that_is_faster_but_is_held_against_it_anyway(
    judged: Any, verdict: Verdict, winner: str
) -> None:
    found = outcome(over_peers=verdict, openvino=[0.52, 0.54, 0.53, 0.53, 0.55, 0.51])
    found.comparisons = [c for c in found.comparisons if PEER not in (c.base, c.other)]
    found.samples.pop(PEER)
    answer = judged(found, AOT, AOT)
    assert (answer.winner, answer.best_peer.name) == (winner, "openvino")


def test_a_peer_that_failed_in_the_judgement_is_filed_and_the_best_of_the_others_takes_its_place(
    bench: Any, judged: Any
) -> None:
    found = outcome()
    found.failed["openvino"] = FuseworksError("child:user:crashed", signal="SIGSEGV")
    found.comparisons = [c for c in found.comparisons if "openvino" not in (c.base, c.other)]
    found.samples.pop("openvino")
    answer = judged(found)
    assert answer.best_peer.name == "aot_inductor"
    assert answer.evaluations["openvino"].status == EvaluationStatus.CRASHED
    assert "openvino, a peer, failed while it was judged and is not compared." in answer.notes
    assert [row.name for row in answer.judged_peers] == ["aot_inductor", "onnxruntime"]


def as_run(found: JudgeOutcome, role: str, logs: list[float]) -> None:
    """A second contender: `logs` are its speedups over the baseline in default settings, over which the winner has 0.8
    and openvino 0.7."""
    name = role + judging.AS_RUN
    winner = [0.8 + at for at in (0.01, -0.01, 0, 0, 0.02, -0.02)]
    found.comparisons += [
        compared(name, WINNER, np.subtract(winner, logs).tolist()),
        compared(DEPLOYED, name, logs),
        compared(DEPLOYED, WINNER, winner),
        compared(DEPLOYED, "openvino", [0.7] * 6),
    ]
    over_openvino = 0.7 - np.array(logs)
    times_ns = 12e6 * np.exp(over_openvino - LOGS["openvino"])
    found.samples[name] = [entrant(name, int(ns)) for ns in times_ns]


def test_the_winner_over_a_peer_as_users_run_it_is_told_beside_that_under_the_same_settings(judged: Any) -> None:
    found = outcome()
    as_run(found, PEER, [0.2] * 6)
    (row,) = (row for row in judged(found).judged_peers if row.name == "aot_inductor")
    assert row.as_run.speedup == pytest.approx(math.exp(0.6))
    assert (row.as_run.base, row.as_run.other) == ("aot_inductor (default settings)", "aot_inductor + rewrites")
    assert row.winner_speedup == pytest.approx(math.exp(0.2))


def test_a_peer_that_takes_the_winners_place_is_held_against_the_others_as_run_by_the_same_sets(judged: Any) -> None:
    found = outcome(over_peers=SAME)
    as_run(found, PEER, [0.2] * 6)
    answer = judged(found)
    (row,) = (row for row in answer.judged_peers if row.name == "aot_inductor")
    assert answer.winner == "openvino"
    assert row.as_run.speedup == pytest.approx(math.exp(0.7 - 0.2))


def test_what_failed_says_nothing_as_users_run_it_either(judged: Any) -> None:
    found = outcome()
    as_run(found, PEER, [0.2] * 6)
    found.failed[PEER] = FuseworksError("child:user:crashed", signal="SIGSEGV")
    found.comparisons = [c for c in found.comparisons if PEER not in (c.base, c.other)]
    found.samples.pop(PEER)
    answer = judged(found)
    assert not any("default settings)" in name and "aot" in name for name in answer.samples)
    assert "aot_inductor, the best peer, failed while it was judged and is not compared." in answer.notes


def test_one_that_fails_in_default_settings_only_is_told_and_keeps_its_other_figures(judged: Any) -> None:
    found = outcome()
    found.failed["openvino" + judging.AS_RUN] = FuseworksError("child:user:crashed", signal="SIGSEGV")
    answer = judged(found)
    (row,) = (row for row in answer.judged_peers if row.name == "openvino")
    assert (row.as_run, row.winner_speedup) == (None, pytest.approx(math.exp(0.1)))
    assert any(note.startswith("openvino failed in default settings: ") for note in answer.notes)


def test_a_rival_that_does_not_repeat_drops_out_alone(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = outcome(openvino=[2.5] * 6)
    monkeypatch.setattr(judging, "summary", lambda *_: SimpleNamespace(median_ms=1.0))
    monkeypatch.setattr(judging, "roofline_bound_ms", lambda *_: None)
    monkeypatch.setattr(judging, "drawing", lambda *_: None)
    monkeypatch.setattr(judging, "check_memory", lambda *_: None)
    monkeypatch.setattr(judging, "recheck", lambda *_, **__: "measured again it is 2.00 times as fast")
    for role in (PEER, "openvino"):
        judging._believe_peer(bench, found, {}, {}, role)
    assert set(found.failed) == {"openvino"}
    assert found.comparison(PEER, WINNER) is not None and found.comparison("openvino", WINNER) is None
