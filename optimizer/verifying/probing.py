"""What is asked of a candidate beside fresh random inputs: edges, repetition, kept answers, touched inputs.

The baseline goes through the same first; what it does itself (an in-place model, an output that is a view of its input)
is no fault in a candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from optimizer.result import Probe
from optimizer.sandbox import Child
from optimizer.verifying.asking import Answers, ask
from optimizer.verifying.judging import judge_edge
from optimizer.verifying.numerics import Rule
from optimizer.verifying.questions import Question, Truths


@dataclass
class Habits:
    """What the baseline itself does."""

    mutated: set[int] = field(default_factory=set)
    after: list[np.ndarray] = field(default_factory=list)
    not_repeatable: bool = False
    not_holdable: bool = False
    reads_inputs_late: bool = False
    keeps_old_inputs: bool = False


@dataclass
class Replay:
    """The first two questions put once more: together (the first answer held over all later calls), apart, and both in
    the same memory.

    `overwritten` and `refilled` are None for an engine whose staged inputs cannot be reached.
    """

    again: list[np.ndarray]
    held: list[np.ndarray]
    overwritten: list[np.ndarray] | None
    refilled: list[list[np.ndarray]] | None
    after: list[np.ndarray]


def replay(child: Child, truths: Truths, after: Sequence[int], timeout_s: float) -> Replay:
    pair = [question.arrays for question in truths.pooled[:2]]
    together = ask(child, pair, timeout_s=timeout_s, hold=True, after=after)
    apart = ask(child, pair[:1], timeout_s=timeout_s, overwrite=True)
    there = ask(child, pair, timeout_s=timeout_s, refill=True)
    assert together.held is not None
    late = apart.whole()[0] if apart.overwritten else None
    refilled = there.whole() if there.refilled else None
    return Replay(together.whole()[0], together.held, late, refilled, together.after)


def observe(baseline: Child, truths: Truths, rule: Rule, pooled: Answers, edges: Answers, timeout_s: float) -> Habits:
    """Puts the baseline itself through the probes."""
    mutated = pooled.mutated | edges.mutated
    seen = replay(baseline, truths, sorted(mutated), timeout_s)
    first = truths.pooled[0]
    return Habits(
        mutated=mutated,
        after=seen.after,
        not_repeatable=judge_edge(seen.again, first, truths, rule) is not None,
        not_holdable=judge_edge(seen.held, first, truths, rule) is not None,
        reads_inputs_late=seen.overwritten is not None
        and judge_edge(seen.overwritten, first, truths, rule) is not None,
        keeps_old_inputs=seen.refilled is not None and _in_one_place(seen.refilled, truths, rule) is not None,
    )


def probe(
    candidate: Child, truths: Truths, rule: Rule, pooled: Answers, habits: Habits, timeout_s: float
) -> list[Probe]:
    """Every probe of one candidate. Raises ChildFailed when it dies."""
    reasons = [question.not_judged or _too_fine(question, rule) for question in truths.edges]
    judged = [question for question, reason in zip(truths.edges, reasons, strict=True) if reason is None]
    edges = ask(candidate, [question.arrays for question in judged], timeout_s=timeout_s, tolerant=True)
    probes = [_edge(question, index, edges, truths, rule) for index, question in enumerate(judged)]
    for question, reason in zip(truths.edges, reasons, strict=True):
        if reason is not None:
            told = f"not judged: {reason}"
            probes.append(Probe(name=question.name, kind=question.kind, passed=True, judged=False, reason=told))
    mutated = pooled.mutated | edges.mutated
    seen = replay(candidate, truths, sorted(habits.mutated & mutated), timeout_s)
    first = truths.pooled[0]
    probes.append(_repeat(seen.again, pooled.whole()[0], first, truths, rule, habits))
    probes.append(_held(seen.held, first, truths, rule, habits))
    probes.append(_overwritten(seen.overwritten, first, truths, rule, habits))
    probes.append(_refilled(seen.refilled, truths, rule, habits))
    probes.append(_strided(candidate, first, truths, rule, timeout_s))
    probes.append(_mutation(mutated, seen.after, truths.inputs, habits, rule))
    return probes


def _too_fine(question: Question, rule: Rule) -> str | None:
    return "a lower precision does not tell these values apart" if question.fine and rule.bound is not None else None


def _edge(question: Question, index: int, answers: Answers, truths: Truths, rule: Rule) -> Probe:
    answer = answers.sets[index]
    if answer is None:
        reason: str | None = f"it fails where the original answers: {answers.failed[index]}"
    else:
        reason = judge_edge(answer, question, truths, rule)
    return Probe(name=question.name, kind=question.kind, passed=reason is None, reason=reason)


def _repeat(
    again: list[np.ndarray], before: list[np.ndarray], question: Question, truths: Truths, rule: Rule, habits: Habits
) -> Probe:
    name = "the same inputs again"
    if habits.not_repeatable:
        return Probe(
            name=name,
            kind="repeat",
            passed=True,
            judged=False,
            reason="not judged: the original itself answers otherwise",
        )
    reason = judge_edge(again, question, truths, rule)
    if reason is not None:
        reason = f"the same inputs get another answer: {reason}"
        return Probe(name=name, kind="repeat", passed=False, reason=reason)
    equal = all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(again, before, strict=True))
    note = None if equal else "answers differ from call to call, by rounding"
    return Probe(name=name, kind="repeat", passed=True, reason=note)


def _held(held: list[np.ndarray], question: Question, truths: Truths, rule: Rule, habits: Habits) -> Probe:
    name = "an answer kept over the next calls"
    if habits.not_holdable:
        return Probe(
            name=name,
            kind="held_output",
            passed=True,
            judged=False,
            reason="not judged: the original's own changes too",
        )
    reason = judge_edge(held, question, truths, rule)
    if reason is not None:
        reason = f"it changed once later calls had run: {reason}"
    return Probe(name=name, kind="held_output", passed=reason is None, reason=reason)


def _overwritten(
    late: list[np.ndarray] | None, question: Question, truths: Truths, rule: Rule, habits: Habits
) -> Probe:
    name = "inputs overwritten after the call"
    if late is None or habits.reads_inputs_late:
        what = (
            "the original's own answer changes with them"
            if late is not None
            else "this engine's inputs cannot be reached"
        )
        return Probe(name=name, kind="held_output", passed=True, judged=False, reason=f"not judged: {what}")
    reason = judge_edge(late, question, truths, rule)
    if reason is not None:
        reason = f"the answer changes with them, so work is left until after the call has returned: {reason}"
    return Probe(name=name, kind="held_output", passed=reason is None, reason=reason)


def _refilled(there: list[list[np.ndarray]] | None, truths: Truths, rule: Rule, habits: Habits) -> Probe:
    name = "other values in the same memory"
    if there is None or habits.keeps_old_inputs:
        what = "this engine's inputs cannot be reached" if there is None else "the original itself answers otherwise"
        return Probe(name=name, kind="repeat", passed=True, judged=False, reason=f"not judged: {what}")
    reason = _in_one_place(there, truths, rule)
    if reason is not None:
        reason = f"the answer is not that of the new values, so it remembers inputs by their place: {reason}"
    return Probe(name=name, kind="repeat", passed=reason is None, reason=reason)


def _in_one_place(answers: list[list[np.ndarray]], truths: Truths, rule: Rule) -> str | None:
    reasons = [judge_edge(answer, q, truths, rule) for answer, q in zip(answers, truths.pooled[:2], strict=True)]
    return next((reason for reason in reasons if reason is not None), None)


def _strided(candidate: Child, question: Question, truths: Truths, rule: Rule, timeout_s: float) -> Probe:
    """Of what the caller hands over; an engine takes it into memory of its own, and must do so by its strides."""
    answer = ask(candidate, [question.arrays], timeout_s=timeout_s, strided=True, tolerant=True)
    [given] = answer.sets
    if given is None:
        reason: str | None = f"it fails where the same values in one piece are answered: {answer.failed[0]}"
    else:
        reason = judge_edge(given, question, truths, rule)
    return Probe(name="inputs that are not contiguous", kind="edge", passed=reason is None, reason=reason)


def _mutation(mutated: set[int], after: list[np.ndarray], inputs: Sequence[str], habits: Habits, rule: Rule) -> Probe:
    extra = ", ".join(inputs[index] for index in sorted(mutated - habits.mutated))
    missing = ", ".join(inputs[index] for index in sorted(habits.mutated - mutated))
    reason = None
    if extra:
        reason = f"it changes its input {extra} in place; the original does not"
    elif missing:
        reason = f"it leaves its input {missing} as it was; the original changes it in place"
    else:
        for index, mine, base in zip(sorted(mutated), after, habits.after, strict=True):
            if not _close(mine, base, rule):
                reason = f"it leaves other values in its input {inputs[index]} than the original does"
    return Probe(name="inputs after the call", kind="mutation", passed=reason is None, reason=reason)


def _close(mine: np.ndarray, base: np.ndarray, rule: Rule) -> bool:
    if mine.shape != base.shape or base.dtype.kind != "f":
        return np.array_equal(mine, base)
    spread = float(np.std(base[np.isfinite(base)])) if np.isfinite(base).any() else 0.0
    return np.allclose(mine, base, rtol=0.0, atol=(rule.bound or 100 * rule.floor) * (spread or 1.0), equal_nan=True)
