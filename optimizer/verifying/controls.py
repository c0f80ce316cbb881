"""Negative controls: answers that are certainly wrong are put to the same judge in every verification, and must fail.

A control that passes says that the workload cannot tell right from wrong (a model that really answers zeros), or that
the bound is too wide. It is never the candidate's fault.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from optimizer.result import Probe
from optimizer.verifying.judging import judge_pooled
from optimizer.verifying.numerics import Rule
from optimizer.verifying.questions import Question, Truths

Forgery = list[list[np.ndarray]]


def forge_zeros(truths: Truths) -> Forgery:
    return [[np.zeros_like(base) for base in question.baseline] for question in truths.pooled]


def forge_inputs(truths: Truths) -> Forgery:
    """Each output is the first input of its shape, else the first input, repeated or cut to size."""
    return [[_like(_fitting(question, base), base) for base in question.baseline] for question in truths.pooled]


def forge_last_answer(truths: Truths) -> Forgery:
    """Each call gets the answer of the call before it; the first gets the last's."""
    before = [truths.pooled[-1], *truths.pooled[:-1]]
    return [
        [_like(old, base) for old, base in zip(previous.baseline, question.baseline, strict=True)]
        for previous, question in zip(before, truths.pooled, strict=True)
    ]


CONTROLS: dict[str, Callable[[Truths], Forgery]] = {
    "zeros": forge_zeros,
    "the input handed back": forge_inputs,
    "the last call's output": forge_last_answer,
}


def run_controls(truths: Truths, rule: Rule) -> list[Probe]:
    """`passed` means that the control was caught."""
    probes = []
    for name, forge in CONTROLS.items():
        accepted = all(row.passed for row in judge_pooled(forge(truths), truths, rule))
        reason = f"{name} would be accepted: {_why(truths, rule)}" if accepted else None
        probes.append(Probe(name=name, kind="negative_control", passed=not accepted, reason=reason))
    return probes


def _why(truths: Truths, rule: Rule) -> str:
    if rule.bound is not None and rule.bound >= 0.3:
        return f"the allowed error of {rule.bound:g} of the spread is too wide"
    if all(unit.kind != "spread" for unit in truths.yardsticks):
        return "the model's own outputs are the same for every input of this workload"
    if max(truths.baseline_errors) > 0.1:
        return "the original itself is far from its float64 reference"
    return "the model's own outputs are that, on this workload"


def _fitting(question: Question, output: np.ndarray) -> np.ndarray:
    return next((array for array in question.arrays if array.shape == output.shape), question.arrays[0])


def _like(source: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    if source.size == 0:
        return np.zeros_like(wanted)
    return np.resize(source, wanted.shape).astype(wanted.dtype)
