"""Negative controls of a training step: outcomes that are certainly wrong must fail, in every verification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from optimizer.result import Probe
from optimizer.verifying.numerics import Rule
from optimizer.verifying.training.asking import Tensors, Trained
from optimizer.verifying.training.case import Case


def no_update(outcome: Trained) -> Trained:
    return replace(outcome, updates=_zeros(outcome.updates))


def zero_gradients(outcome: Trained) -> Trained:
    return replace(outcome, gradients=_zeros(outcome.gradients))


def stale_gradients(outcome: Trained) -> Trained:
    """At the last step that was looked at, those of the first."""
    steps = sorted({int(name.partition(" ")[0]) for name in outcome.gradients})
    first, last = f"{steps[0]} ", f"{steps[-1]} "
    moved = {
        name: outcome.gradients[first + name.removeprefix(last)] if name.startswith(last) else array
        for name, array in outcome.gradients.items()
    }
    return replace(outcome, gradients=moved)


CONTROLS: dict[str, Callable[[Trained], Trained]] = {
    "no update at all": no_update,
    "zero gradients": zero_gradients,
    "another batch's gradients": stale_gradients,
}


def run_controls(case: Case, rule: Rule) -> list[Probe]:
    """`passed` means that the control was caught."""
    probes = []
    for name, forge in CONTROLS.items():
        accepted = all(row.passed for row in case.judge(forge(case.baseline), rule))
        reason = f"{name} would be accepted: this step's own gradients and updates are that" if accepted else None
        probes.append(Probe(name=name, kind="negative_control", passed=not accepted, reason=reason))
    return probes


def _zeros(tensors: Tensors) -> Tensors:
    return {name: np.zeros_like(array) for name, array in tensors.items()}
