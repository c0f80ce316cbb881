"""What is offered after a judgement: the winner, the simpler peer, or nothing; and what stays in the answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from optimizer.benchmarking.bursts import Burst, Entrant
from optimizer.benchmarking.judge import JudgeOutcome
from optimizer.coordinator import deliver, judging
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.deliver import Judged, recipe_summary
from optimizer.coordinator.judging import BASELINE, DEPLOYED, PEER, WINNER
from optimizer.coordinator.replay import _against
from optimizer.coordinator.workshop import Plan
from optimizer.errors import FuseworksError
from optimizer.result import Candidate, Comparison, Evaluation, EvaluationStatus, Interval, Verdict
from optimizer.spec import BackendStep, Limits, PassStep, PrecisionStep, RuntimeSettings, RuntimeStep
from tests.optimizer.coordinator.support import context

TUNED = RuntimeSettings(huge_pages=True)
LIMITS = Limits(peak_memory_bytes=1 << 20, latency_ms=9.5)
FASTER, SAME, SLOWER, CANNOT_TELL = Verdict.FASTER, Verdict.SAME, Verdict.SLOWER, Verdict.CANNOT_TELL


def candidate(name: str, *passes: str, peer: bool = False) -> Candidate:
    steps = [RuntimeStep(runtime=TUNED), *(PassStep(pass_=one) for one in passes), BackendStep(backend="openvino")]
    return Candidate(name=name, steps=steps, peer=peer)


REWRITTEN = candidate("openvino + rewrites", "fold_batch_norm")
ENGINE = candidate("openvino", peer=True)


def evaluation(one: Candidate, status: EvaluationStatus, **fields: Any) -> Evaluation:
    return Evaluation(candidate=one, status=status, **fields)


def compared(base: str, other: str, verdict: Verdict, speedup: float = 1.2) -> Comparison:
    return Comparison(
        base=base, other=other, speedup=speedup, interval=Interval(low=speedup - 0.1, high=speedup + 0.1),
        verdict=verdict, noise_floor=0.02, pairs=6, looks=1, same_settings=base != DEPLOYED,
        log_speedups=[0.1] * 6,
    )  # fmt: skip


def process(name: str, ms: float) -> Entrant:
    calls = np.full(3, int(ms * 1e6), dtype=np.int64)
    return Entrant(name, None, bursts=[Burst(calls, int(calls.sum()), 0, 0)])  # type: ignore[arg-type]


TIMES_MS = {BASELINE: 12.0, "baseline_again": 12.0, DEPLOYED: 13.0, WINNER: 9.0, PEER: 8.9}


def outcome(
    winner: Verdict = FASTER,
    over_peer: Verdict = FASTER,
    peer: Verdict = FASTER,
    deployed: Verdict = FASTER,
    *,
    over_peer_speedup: float = 0.99,
) -> JudgeOutcome:
    comparisons = [
        compared(BASELINE, WINNER, winner, 1.35),
        compared(PEER, WINNER, over_peer, over_peer_speedup),
        compared(BASELINE, PEER, peer, 1.36),
        compared(DEPLOYED, WINNER, deployed),
        compared(DEPLOYED, PEER, deployed),
    ]
    samples = {name: [process(name, ms) for _ in range(6)] for name, ms in TIMES_MS.items()}
    return JudgeOutcome(comparisons, samples, {}, 0.02, [0.01, -0.01], 6, 1, [0.5], ["stopped after 7 of 18 sets"])


@pytest.fixture
def bench(tmp_path: Any) -> Any:
    answer = Answer()
    for one in (REWRITTEN, ENGINE):
        answer.file(Evaluation(candidate=one, status=EvaluationStatus.PASSED))
    made = context(tmp_path)
    made.out.mkdir(exist_ok=True)
    return SimpleNamespace(
        context=made,
        answer=answer,
        baseline=lambda settings: Candidate(name="baseline", steps=[BackendStep(backend="eager")], peer=True),
        workload=SimpleNamespace(sizes=dict, mode="inference", limits=LIMITS),
        captured=SimpleNamespace(upload=SimpleNamespace(stem="dcn")),
    )


@pytest.fixture
def judge(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("optimizer.inputs.items", lambda workload, sizes: 1)

    def judged(found: JudgeOutcome, **options: Any) -> Judged:
        monkeypatch.setattr(deliver, "judge_winner", lambda *_: found)
        return deliver.judged(bench, REWRITTEN, ENGINE, deadline=0.0, **options)

    return judged


@pytest.fixture
def delivered(bench: Any, judge: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(deliver, "conditions", lambda *_: SimpleNamespace(observed={}))
    monkeypatch.setattr(deliver, "make_recipe", lambda *_: None)
    monkeypatch.setattr(deliver, "as_document", lambda _: {"kind": "Recipe"})
    monkeypatch.setattr(deliver, "digest", lambda _: "d1")
    monkeypatch.setattr(deliver, "dump", lambda _: "kind: Recipe\n")
    monkeypatch.setattr(deliver, "package", lambda *_: [])

    def deliver_it(found: JudgeOutcome) -> Answer:
        deliver.deliver(bench, judge(found))
        return bench.answer  # type: ignore[no-any-return]

    return deliver_it


@pytest.mark.parametrize("over_peer", [FASTER, CANNOT_TELL])
def test_a_winner_that_may_well_give_something_beyond_its_peer_stays(judge: Any, over_peer: Verdict) -> None:
    assert judge(outcome(over_peer=over_peer, over_peer_speedup=1.04)).winner is REWRITTEN


@pytest.mark.parametrize(
    ("over_peer", "word"),
    [(SAME, "no faster than"), (SLOWER, "slower than"), (CANNOT_TELL, "not found faster than")],
)
def test_the_simpler_peer_takes_the_place_of_a_winner_that_gives_nothing_beyond_it(
    bench: Any, judge: Any, over_peer: Verdict, word: str
) -> None:
    assert judge(outcome(over_peer=over_peer)).winner is ENGINE
    answer = bench.answer
    assert answer.winner == "openvino"
    assert answer.same_settings.speedup == 1.36, "of the peer, and not of the winner that gave way"
    assert answer.notes == [
        f"openvino + rewrites was judged {word} openvino, which takes its place, on the same samples."
    ]


def test_all_that_was_measured_of_the_winner_that_gave_way_stays_in_the_answer(bench: Any, judge: Any) -> None:
    judge(outcome(over_peer=SAME))
    answer = bench.answer
    assert {(c.base, c.other, c.speedup) for c in answer.comparisons} == {
        ("baseline", "openvino + rewrites", 1.35),
        ("openvino", "openvino + rewrites", 0.99),
        ("baseline", "openvino", 1.36),
        ("baseline (default settings)", "openvino + rewrites", 1.2),
        ("baseline (default settings)", "openvino", 1.2),
    }
    assert {"openvino + rewrites", "openvino", "baseline", "baseline_again"} <= set(answer.samples)
    assert len(answer.samples["openvino + rewrites"]) == 6
    assert answer.samples["openvino + rewrites"][0]["calls_ns"] == [[9_000_000] * 3]
    assert answer.evaluations["openvino + rewrites"].performance.median_ms == 9.0
    assert answer.evaluations["openvino"].performance.median_ms == 8.9
    assert answer.best_peer.name == "openvino"


def test_a_peer_that_is_not_faster_than_the_original_does_not_take_the_place_of_a_winner_that_is(judge: Any) -> None:
    assert judge(outcome(over_peer=SAME, peer=CANNOT_TELL)).winner is REWRITTEN
    assert judge(outcome(winner=CANNOT_TELL, over_peer=SAME, peer=CANNOT_TELL)).winner is ENGINE


def test_a_recipe_that_is_replayed_gives_way_only_to_a_faster_peer(judge: Any) -> None:
    assert judge(outcome(over_peer=SAME), simplest=False).winner is REWRITTEN
    assert judge(outcome(over_peer=SLOWER), simplest=False).winner is ENGINE


def test_a_faster_winner_is_offered(delivered: Any) -> None:
    answer = delivered(outcome())
    assert answer.offered is True
    assert answer.recipe_digest == "d1"
    assert answer.summary.startswith("Faster: 1.35x")
    assert answer.conditions.observed["notes"] == ["stopped after 7 of 18 sets"]


def test_the_answer_says_who_keeps_the_workloads_limits(delivered: Any) -> None:
    latency, memory = delivered(outcome()).limits
    assert (latency.name, latency.limit) == ("latency_ms", 9.5)
    assert (latency.winner, latency.winner_kept) == (9.0, True)
    assert (latency.baseline, latency.baseline_kept) == (12.0, False)
    assert (memory.name, memory.winner, memory.winner_kept) == ("peak_memory_bytes", None, None), "it was not measured"


def test_a_verdict_that_time_cut_off_is_told_with_that_reason_and_not_as_noise(delivered: Any) -> None:
    found = outcome(winner=CANNOT_TELL, over_peer=CANNOT_TELL, peer=CANNOT_TELL, over_peer_speedup=1.02)
    reason = "only 3 of the 6 pairs that a verdict needs fitted into the time"
    found.comparisons = [c.model_copy(update={"reason": reason}) for c in found.comparisons]
    summary = delivered(found).summary
    assert summary.startswith(f"No faster recipe found that holds: {reason} (1.35x")
    assert "noise" not in summary


def test_a_winner_that_is_slower_as_deployed_is_told_and_not_offered(delivered: Any) -> None:
    answer = delivered(outcome(deployed=SLOWER))
    assert (answer.offered, answer.recipe, answer.artifacts) == (False, None, [])
    assert answer.winner == "openvino + rewrites"
    assert answer.notes[-1].startswith(
        "No recipe and no package are offered: openvino + rewrites is faster under equal"
    )
    assert "slower than the original in its default settings, so that nothing is offered" in answer.summary


@pytest.mark.parametrize("verdict", [SAME, SLOWER, CANNOT_TELL])
def test_a_best_candidate_that_is_not_faster_is_told_and_not_offered(delivered: Any, verdict: Verdict) -> None:
    answer = delivered(outcome(winner=verdict, peer=verdict))
    assert (answer.offered, answer.recipe) == (False, None)
    assert answer.winner == "openvino + rewrites" and answer.best_ms == 9.0


def test_a_recipes_summary_says_what_the_steps_do_and_no_figure() -> None:
    plan = Plan.of(
        Candidate(
            name="x",
            steps=[RuntimeStep(runtime=TUNED), PrecisionStep(precision="bfloat16"), BackendStep(backend="openvino")],
        )
    )
    told = recipe_summary(plan, ["fold_batch_norm", "fuse_operations"])
    assert told == (
        "Rewrites the graph (fold_batch_norm, fuse_operations), then runs it on openvino in bfloat16, "
        "with the runtime settings huge_pages True."
    )
    bare = Plan.of(Candidate(name="x", steps=[BackendStep(backend="eager")]))
    assert recipe_summary(bare, []) == "Runs it on eager."


def test_a_replayed_recipe_that_is_slower_as_deployed_is_not_accepted() -> None:
    recipe: Any = SimpleNamespace(accept=SimpleNamespace(min_speedup=1.0))
    same, deployed = compared(BASELINE, WINNER, FASTER), compared(DEPLOYED, WINNER, SLOWER)
    assert "slower than the original in its default settings" in _against(recipe, same, deployed, is_winner=True)
    assert _against(recipe, same, compared(DEPLOYED, WINNER, CANNOT_TELL), is_winner=True) == ""


# ---- believing -----------------------------------------------------------------------------------------------------


def believe_peer(bench: Any, monkeypatch: pytest.MonkeyPatch, speedup: float, answer: Any) -> tuple[JudgeOutcome, list]:
    found, asked = outcome(), []
    found.comparisons[2] = compared(BASELINE, PEER, FASTER, speedup)
    monkeypatch.setattr(judging, "summary", lambda *_: SimpleNamespace(median_ms=1.0))
    monkeypatch.setattr(judging, "roofline_bound_ms", lambda *_: None)
    monkeypatch.setattr(judging, "drawing", lambda *_: None)

    def recheck(starts: Any, base: str, other: str, *_: Any, **__: Any) -> str | None:
        asked.append((base, other))
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    monkeypatch.setattr(judging, "recheck", recheck)
    bench.reference = None
    judging._believe_peer(bench, found, {}, {})
    return found, asked


def test_a_peer_too_good_to_be_true_is_measured_again(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found, asked = believe_peer(bench, monkeypatch, 11.0, None)
    assert asked == [(BASELINE, PEER)]
    assert found.comparison(BASELINE, PEER) is not None and found.failed == {}
    assert believe_peer(bench, monkeypatch, 9.0, "never asked")[1] == []


def test_a_peer_that_does_not_repeat_drops_out_and_the_winner_stays(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = believe_peer(bench, monkeypatch, 11.0, "measured again it is 2.00 times as fast")
    assert found.failed[PEER].id == "benchmarking:user:did-not-repeat"
    assert {(c.base, c.other) for c in found.comparisons} == {(BASELINE, WINNER), (DEPLOYED, WINNER)}
    assert PEER not in found.samples and WINNER in found.samples


def test_a_peer_that_takes_more_memory_than_the_workload_allows_drops_out(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "peak_memory_bytes", lambda entrants: 3 << 20)
    found, asked = believe_peer(bench, monkeypatch, 11.0, None)
    assert found.failed[PEER].id == "benchmarking:user:memory-limit"
    assert found.failed[PEER].message == "the best peer takes 3.0 MiB, and the workload allows 1.0 MiB."
    assert asked == []


def test_a_busy_machine_is_not_held_against_the_peer(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FuseworksError) as caught:
        believe_peer(bench, monkeypatch, 11.0, FuseworksError("benchmarking:ours:busy"))
    assert caught.value.id == "benchmarking:ours:busy"


@pytest.mark.parametrize(
    ("rewritten", "words"),
    [
        ([], "no rewrite applies"),
        (
            [evaluation(REWRITTEN, EvaluationStatus.NOT_TRIED, reason="it was not built in time")],
            "no rewrite that applies was measured in time",
        ),
        (
            [evaluation(REWRITTEN, EvaluationStatus.PASSED, screened_speedup=1.1)],
            "no rewrite beat the engines by themselves",
        ),
    ],
)
def test_where_an_engine_leads_by_itself_it_is_told_whether_any_rewrite_was_measured(
    bench: Any, rewritten: list[Evaluation], words: str
) -> None:
    bench.answer.evaluations = {e.candidate.name: e for e in [evaluation(ENGINE, EvaluationStatus.PASSED), *rewritten]}
    assert deliver._rewrites_in_words(bench) == words
