"""ONNX Runtime by itself answers wrongly: which of its own optimizers does it, and the runtime without those.

What is found is proposed, and then verified and measured like any candidate. Not for a lower precision, nor for
rewrites: those are left out by `rescue.py`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from optimizer.compiling.onnx_optimizers import OPTIMIZERS
from optimizer.coordinator.prepare import Bench
from optimizer.coordinator.workshop import Built, Plan
from optimizer.errors import FuseworksError
from optimizer.result import Candidate, EvaluationStatus, Verification
from optimizer.spec import BackendStep, RuntimeSettings
from optimizer.verifying.failing import answers_them
from optimizer.verifying.judging import judge_pooled
from optimizer.verifying.numerics import Rule
from optimizer.verifying.own_optimizers import guilty
from optimizer.verifying.verify import Verifier

RUNTIME = "onnxruntime"
LOWER_LEVELS = ("extended", "basic", "disabled")
WRONG_BASELINE = 1e-3  # of the spread: far more than float32 rounds
MOST_S, SHARE = 45.0, 0.1  # of what is left of the budget
TIMEOUT_S = 120.0


class _OutOfTime(Exception):
    """What was found by then is not known to be right."""


@dataclass(frozen=True)
class Culprit:
    """`options`: those under which the runtime answers rightly; `words`: what they leave out."""

    options: dict[str, Any]
    words: str


def without_the_culprit(bench: Bench, candidates: Sequence[Candidate]) -> list[Candidate]:
    """For each of `candidates` that the runtime itself answered wrongly, the same without what makes it wrong.

    Looked for once, with the first of them: one model has one culprit.
    """
    wrong = [candidate for candidate in candidates if _is_wrong(bench, candidate)]
    if not wrong:
        return []
    evaluation = bench.answer.evaluations[wrong[0].name]
    assert evaluation.verification is not None and bench.verifier is not None
    found = find(bench, wrong[0], evaluation.verification, bench.verifier.rule("float32"))
    if found is None:
        return []
    bench.answer.note(
        bench.context,
        f"ONNX Runtime is wrong on this model because of its own optimizers ({evaluation.reason}): it is tried "
        f"{found.words} as well.",
    )
    return [_with(candidate, found) for candidate in wrong]


def beside_a_wrong_baseline(bench: Bench) -> list[Candidate]:
    """Of an ONNX upload the runtime is the baseline: where its own optimizers make that one wrong, nobody would be
    refused for being as wrong. The reader is told, and the runtime without the culprit is proposed."""
    verifier = bench.verifier
    if not isinstance(verifier, Verifier) or bench.captured.baseline_backend != RUNTIME:
        return []
    truths, rule = verifier.truths, Rule(ratio=0.0, floor=WRONG_BASELINE / 10)
    outputs = judge_pooled([question.baseline for question in truths.pooled], truths, rule)
    worst = max((row.error for row in outputs if row.yardstick != "places"), default=0.0)
    if worst <= WRONG_BASELINE:
        return []
    candidate = bench.baseline(RuntimeSettings()).model_copy(update={"name": RUNTIME})
    found = find(bench, candidate, Verification(passed=False, outputs=outputs), rule)
    if found is None:
        return []
    bench.answer.note(
        bench.context,
        f"The original itself is off by {worst:.1e} of its spread, because of ONNX Runtime's own optimizers: it is "
        f"right {found.words}, and is tried so as well.",
    )
    return [_with(candidate, found)]


def find(bench: Bench, candidate: Candidate, verification: Verification, rule: Rule) -> Culprit | None:
    """None where the runtime is wrong whatever is left out, or the time is over."""
    context = bench.context
    deadline = time.monotonic() + min(MOST_S, SHARE * context.remaining_s())
    try:
        with context.events.stage("verifying", "Looking for the wrong one among ONNX Runtime's own optimizers"):
            built = bench.shop.build(candidate)
            return _find(bench, built, verification, rule, deadline)
    except (_OutOfTime, FuseworksError) as error:
        context.events.emit("log", f"ONNX Runtime's wrong optimizer was not found: {error or 'the time is over'}")
        return None


def _find(bench: Bench, built: Built, verification: Verification, rule: Rule, deadline: float) -> Culprit | None:
    def right(options: dict[str, Any]) -> bool:
        if time.monotonic() > deadline:
            raise _OutOfTime
        return _right(bench, built, options, verification, rule)

    given = built.plan.backend.options
    names = guilty(lambda left_out: right({**given, "disabled_optimizers": list(left_out)}), OPTIMIZERS)
    if names:
        return Culprit({"disabled_optimizers": names}, f"without {' and '.join(names)}")
    for level in LOWER_LEVELS:
        if right({**given, "level": level}):
            return Culprit({"level": level}, f"with its optimizer at level {level}")
    return None


def _right(bench: Bench, built: Built, options: dict[str, Any], verification: Verification, rule: Rule) -> bool:
    """The same artifact in a fresh session. Raises FuseworksError."""
    verifier = bench.verifier
    assert verifier is not None
    backend = BackendStep(backend=RUNTIME, options=options)
    plan = replace(built.plan, backend=backend)
    loaded = bench.shop.load(replace(built, plan=plan), plan.settings, name="own-optimizers")
    with loaded.child as child:
        return answers_them(child, verification, verifier.truths, rule, TIMEOUT_S)


def _is_wrong(bench: Bench, candidate: Candidate) -> bool:
    evaluation = bench.answer.evaluations.get(candidate.name)
    if evaluation is None or evaluation.status != EvaluationStatus.INCORRECT_NUMERICS or not evaluation.verification:
        return False
    plan = Plan.of(candidate)
    tried = set(plan.backend.options) & {"level", "disabled_optimizers"}
    # a rewritten graph that departs in float64 is wrong before any engine sees it
    departs = evaluation.verification.first_diverging is not None
    return plan.backend.backend == RUNTIME and plan.precision is None and not tried and not departs


def _with(candidate: Candidate, found: Culprit) -> Candidate:
    *others, backend = candidate.steps
    assert isinstance(backend, BackendStep)
    steps = [*others, backend.model_copy(update={"options": {**backend.options, **found.options}})]
    name = f"{candidate.name} {found.words}"
    why = "the runtime is wrong on this model by one of its own optimizers"
    return candidate.model_copy(update={"name": name[:120], "steps": steps, "why": why})
