"""Purpose `compare`: two models that take the same inputs, measured together: answers, then speed.

Both as uploaded, or both packaged by the steps of one recipe (`sides.py`). Neither is taken for the truth: answers that
differ are told, and refuse nothing.
"""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from optimizer import inputs
from optimizer.benchmarking.judge import LOOKS, JudgeOutcome, Pair, judge, planned_looks
from optimizer.benchmarking.summary import disturbed_shares, raw_samples
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.context import RunContext
from optimizer.coordinator.judging import check_of, last_deadline, starter, summary
from optimizer.coordinator.limits import limit_checks
from optimizer.coordinator.prepare import Bench, conditions, drawing, prepare
from optimizer.coordinator.replay import opened
from optimizer.coordinator.sides import AFTER, BEFORE, Side, as_packaged, as_uploaded, blamed
from optimizer.errors import FuseworksError, catalogue
from optimizer.recipe import Recipe
from optimizer.result import ComparedAs
from optimizer.spec import Workload
from optimizer.verifying.asking import ask
from optimizer.verifying.comparing import ALIKE, compare_answers, in_words
from optimizer.verifying.verify import MIN_SAMPLES, MIN_SETS

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
    recipe = opened(context, answer, context.spec.recipe) if context.spec.recipe is not None else None
    answer.compared_as = ComparedAs.UPLOADED if recipe is None else ComparedAs.PACKAGED
    benches: list[Bench] = []
    try:
        benches.append(prepare(context, answer, Path(context.spec.model)))
        benches.append(prepare(context, Answer(), Path(context.spec.against)))
        _called_alike(benches[0].workload, benches[1].workload)
        _compare(context, answer, *_sides(answer, benches[0], benches[1], recipe), recipe)
    finally:
        for bench in benches:
            bench.close()


def _sides(answer: Answer, before: Bench, after: Bench, recipe: Recipe | None) -> tuple[Side, Side]:
    if recipe is None:
        return as_uploaded(BEFORE, before), as_uploaded(AFTER, after)
    sides = as_packaged(BEFORE, before, recipe, answer), as_packaged(AFTER, after, recipe, answer)
    for note in _applied_otherwise(*sides):
        answer.note(before.context, note)
    answer.rewrites = after.answer.rewrites  # what the steps did to the model that is asked about
    return sides


def _compare(context: RunContext, answer: Answer, before: Side, after: Side, recipe: Recipe | None) -> None:
    alike = _answer_alike(context, answer, before, after)
    with context.events.stage("benchmarking", f"Comparing {before.name} with {after.name}"):
        outcome = _judged(context, before, after, packaged=recipe is not None)
    answer.comparisons = outcome.comparisons
    same = answer.same_settings = answer.as_deployed = outcome.comparison(BEFORE, AFTER)
    assert same is not None
    for role, side in ((BEFORE, before), (AFTER, after)):
        answer.file(side.measured(summary(side.bench, outcome.samples[role])))
    first, second = (answer.evaluations[role].performance for role in (BEFORE, AFTER))
    assert first is not None and second is not None
    answer.limits = limit_checks(after.bench.workload, second, first, [])
    answer.baseline_ms = answer.evaluations[BEFORE].performance.median_ms  # type: ignore[union-attr]
    answer.best_ms = answer.evaluations[AFTER].performance.median_ms  # type: ignore[union-attr]
    answer.conditions = conditions(context, before.settings)
    answer.conditions.observed.update(
        noise_floor=outcome.noise_floor,
        notes=outcome.notes,
        load_averages=outcome.load_averages,
        disturbed_shares=disturbed_shares(outcome.samples),
    )
    answer.samples = {role: raw_samples(outcome.samples[role]) for role in (BEFORE, AFTER)}
    how = "as uploaded" if recipe is None else f"as packaged by {recipe.metadata.name}"
    answer.summary = (
        f"{after.name} against {before.name}, both {how}: {same.speedup:.2f}x "
        f"[{same.interval.low:.2f}, {same.interval.high:.2f}], {same.verdict.value.replace('_', ' ')}. {alike}"
    )


def _judged(context: RunContext, before: Side, after: Side, *, packaged: bool) -> JudgeOutcome:
    """Each package is held against its own model's reference once more, after it was timed.

    Raises FuseworksError; a fault of the model's with the name of the model.
    """
    sides = {BEFORE: before, AFTER: after}
    # the second model's faults only make it drop out
    with blamed(BEFORE, before.bench) if packaged else nullcontext():
        outcome = judge(
            {role: starter(side.bench, side.candidate) for role, side in sides.items()},
            [Pair(BEFORE, AFTER)],
            drawing(before.bench, 7),
            rng=context.rng(8),
            looks=planned_looks(context.spec.policy.max_pairs, LOOKS),
            deadline=context.deadline(0.0),
            last_deadline=last_deadline(context),
            checks={role: check_of(side.bench, side.candidate) for role, side in sides.items()} if packaged else None,
            own_references={role: side.bench.reference for role, side in sides.items() if side.bench.reference},
            progress=lambda text, done, total: context.events.emit("benchmarking", text, done=done, total=total),
        )
    if AFTER in outcome.failed:
        with blamed(AFTER, after.bench) if packaged else nullcontext():
            raise outcome.failed[AFTER]
    return outcome


def _applied_otherwise(before: Side, after: Side) -> list[str]:
    """A pass that finds less in the new model than in the old may be all that makes it slower."""
    first, second = _places(before), _places(after)
    return [
        f"{name} applied in {first[name]} places of {before.name} and in {second[name]} of {after.name}."
        for name in dict.fromkeys([*first, *second])
        if first[name] != second[name]
    ]


def _places(side: Side) -> Counter[str]:
    """Where each pass applied, counted."""
    found: Counter[str] = Counter()
    for rewrite in side.bench.answer.rewrites:
        found[rewrite.pass_] += len(rewrite.applied)
    return found


def _answer_alike(context: RunContext, answer: Answer, before: Side, after: Side) -> str:
    """Puts the same inputs to both; the rows become the answer's numerics. Returns it in words."""
    workload = before.bench.workload
    sizes, rng = workload.sizes(), context.rng(15)
    items = inputs.items(workload, sizes)
    sets = [inputs.draw(workload, sizes, rng) for _ in range(max(MIN_SETS, -(-MIN_SAMPLES // max(items, 1))))]
    with context.events.stage("verifying", f"Comparing the answers to {len(sets)} sets of inputs"):
        first, second = (_answers(side, sets) for side in (before, after))
        names = [str(output.get("name")) for output in before.bench.captured.inspection.outputs]
        allowed = ALIKE if workload.limits.max_error is None else workload.limits.max_error
        answer.numerics, notes = compare_answers(names, first, second, [items] * len(sets), allowed)
    for note in notes:
        answer.note(context, note)
    return in_words(answer.numerics, notes)


def _answers(side: Side, sets: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
    built = side.bench.shop.build(side.candidate)
    with side.bench.shop.load(built, side.settings, name="answers").child as child:
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
