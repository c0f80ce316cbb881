"""Purpose `compare`: two uploads that take the same inputs, each as its own framework runs it: answers, then speed.

Neither is taken for the truth: answers that differ are told, and refuse nothing.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from optimizer import inputs
from optimizer.benchmarking.judge import LOOKS, Pair, judge, planned_looks
from optimizer.benchmarking.summary import disturbed_shares, raw_samples
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.context import RunContext
from optimizer.coordinator.evaluate import drawing
from optimizer.coordinator.judging import starter, summary
from optimizer.coordinator.prepare import Bench, conditions, prepare
from optimizer.errors import FuseworksError, catalogue
from optimizer.result import Evaluation, EvaluationStatus
from optimizer.spec import RuntimeSettings, Workload
from optimizer.verifying.asking import ask
from optimizer.verifying.comparing import ALIKE, compare_answers, in_words
from optimizer.verifying.verify import MIN_SAMPLES, MIN_SETS

BEFORE, AFTER = "baseline", "other"
ANSWERS_TIMEOUT_S = 300.0

catalogue(
    {
        "compare:user:inputs-differ": (
            "The two models are not called alike: {reason}.",
            "Give both the same input names, dtypes and shapes, or one workload that fits both (--workload).",
        )
    }
)


def compare(context: RunContext, answer: Answer) -> None:
    """Raises FuseworksError."""
    if context.spec.against is None:
        raise FuseworksError("run:usage:spec", text="a comparison needs a second model", place="against")
    before = prepare(context, answer, Path(context.spec.model))
    after = prepare(context, Answer(), Path(context.spec.against))
    _called_alike(before.workload, after.workload)
    settings = RuntimeSettings()
    alike = _answer_alike(context, answer, before, after)
    with context.events.stage(
        "benchmarking", f"Comparing {Path(context.spec.model).name} with {Path(context.spec.against).name}"
    ):
        outcome = judge(
            {
                BEFORE: starter(before, before.baseline(settings)),
                AFTER: starter(after, after.baseline(settings)),
            },
            [Pair(BEFORE, AFTER)],
            drawing(before, 7),
            rng=context.rng(8),
            looks=planned_looks(context.spec.policy.max_pairs, LOOKS),
            deadline=context.deadline(0.0),
            progress=lambda text, done, total: context.events.emit("benchmarking", text, done=done, total=total),
        )
    if AFTER in outcome.failed:
        raise outcome.failed[AFTER]
    answer.comparisons = outcome.comparisons
    answer.same_settings = answer.as_deployed = outcome.comparison(BEFORE, AFTER)
    assert answer.same_settings is not None
    for role, bench in ((BEFORE, before), (AFTER, after)):
        performance = summary(bench, outcome.samples[role])
        candidate = bench.baseline(settings).model_copy(update={"name": role, "why": str(bench.captured.upload.name)})
        answer.file(Evaluation(candidate=candidate, status=EvaluationStatus.PASSED, performance=performance))
    answer.baseline_ms = answer.evaluations[BEFORE].performance.median_ms  # type: ignore[union-attr]
    answer.best_ms = answer.evaluations[AFTER].performance.median_ms  # type: ignore[union-attr]
    answer.conditions = conditions(context, settings)
    answer.conditions.observed.update(
        noise_floor=outcome.noise_floor,
        notes=outcome.notes,
        load_averages=outcome.load_averages,
        disturbed_shares=disturbed_shares(outcome.samples),
    )
    answer.samples = {role: raw_samples(outcome.samples[role]) for role in (BEFORE, AFTER)}
    same = answer.same_settings
    answer.summary = (
        f"{Path(context.spec.against).name} against {Path(context.spec.model).name}: {same.speedup:.2f}x "
        f"[{same.interval.low:.2f}, {same.interval.high:.2f}], {same.verdict.value.replace('_', ' ')}. {alike}"
    )


def _answer_alike(context: RunContext, answer: Answer, before: Bench, after: Bench) -> str:
    """Puts the same inputs to both; the rows become the answer's numerics. Returns it in words."""
    workload = before.workload
    sizes, rng = workload.sizes(), context.rng(15)
    items = inputs.items(workload, sizes)
    sets = [inputs.draw(workload, sizes, rng) for _ in range(max(MIN_SETS, -(-MIN_SAMPLES // max(items, 1))))]
    with context.events.stage("verifying", f"Comparing the answers to {len(sets)} sets of inputs"):
        first, second = (_answers(bench, sets) for bench in (before, after))
        names = [str(output.get("name")) for output in before.captured.inspection.outputs]
        allowed = ALIKE if workload.limits.max_error is None else workload.limits.max_error
        answer.numerics, notes = compare_answers(names, first, second, [items] * len(sets), allowed)
    for note in notes:
        answer.note(context, note)
    return in_words(answer.numerics, notes)


def _answers(bench: Bench, sets: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
    built = bench.shop.build(bench.baseline(RuntimeSettings()))
    with bench.shop.load(built, RuntimeSettings(), name="answers").child as child:
        return ask(child, sets, timeout_s=ANSWERS_TIMEOUT_S).whole()


def _called_alike(ours: Workload, theirs: Workload) -> None:
    """Raises FuseworksError `compare:user:inputs-differ`."""
    counts = len(ours.inputs), len(theirs.inputs)
    if counts[0] != counts[1]:
        raise FuseworksError("compare:user:inputs-differ", reason=f"{counts[0]} inputs against {counts[1]}")
    for one, other in zip(ours.inputs, theirs.inputs, strict=True):
        shapes = ours.shape_of(one, ours.sizes()), theirs.shape_of(other, theirs.sizes())
        if one.dtype != other.dtype or shapes[0] != shapes[1]:
            told = f"{one.name} is {one.dtype} {list(shapes[0])} and {other.name} is {other.dtype} {list(shapes[1])}"
            raise FuseworksError("compare:user:inputs-differ", place=one.name, reason=told)
