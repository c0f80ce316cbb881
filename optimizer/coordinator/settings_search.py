"""Other settings of the process for the best candidate, measured beside it in one set of fresh processes.

What gains is judged under these settings on both sides: the original, and the best peer once more in them. The peer as
it was stays in the judgement too, so that no engine is beaten only because it was given settings that do not suit it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from optimizer import inputs
from optimizer.benchmarking.sets import MeasuredSet, measure_set
from optimizer.benchmarking.summary import performance
from optimizer.coordinator.builds import Builds
from optimizer.coordinator.evaluate import verified
from optimizer.coordinator.judging import BASELINE, FINAL_ROUNDS, check_of, starter
from optimizer.coordinator.prepare import Bench, drawing
from optimizer.coordinator.workshop import Plan
from optimizer.optimizing.planner import Planner, same_steps
from optimizer.optimizing.settings_plans import Variant, backend_of, under, variants
from optimizer.result import Candidate, EvaluationStatus

MIN_GAIN = 1.03  # one set of processes tells no less
VERIFYING_S = 4.0  # a process and its verification


class Tuned(NamedTuple):
    """What is judged. `beside`: the best peer as it was, where `peer` (or the winner itself, where that is the best
    peer) is that one in the winner's new settings."""

    winner: Candidate
    peer: Candidate | None
    beside: list[Candidate]


def tune(
    bench: Bench,
    planner: Planner,
    builds: Builds,
    winner: Candidate,
    peer: Candidate | None,
    *,
    contender_s: float,
    deadline: float,
) -> Tuned:
    """`deadline`: when the judgement must begin. As it was where nothing gains, or there is no time to look."""
    as_it_was = Tuned(winner, peer, [])
    proposed = _proposed(bench, planner, winner)
    if not proposed or not _fits(bench, builds, winner, proposed, contender_s, deadline):
        return as_it_was
    candidates = {under(winner, one).name: (under(winner, one), one) for one in proposed}
    plans = [candidate for candidate, _ in candidates.values()]
    with bench.context.events.stage("compiling", f"Building {winner.name} for other settings"):
        builds.submit(plans)
        builds.wait(plans, deadline)
    built = [plan for plan in plans if bench.shop.is_built(plan)]
    if not built:
        return as_it_was
    with bench.context.events.stage("benchmarking", f"Measuring {winner.name} in other settings"):
        measured = _measured(bench, winner, built)
    gains = {plan.name: _gain(measured, winner, plan) for plan in built if plan.name in measured.entrants}
    for name, gain in gains.items():
        bench.context.events.emit("benchmarking", f"{name}: {gain:.2f}x beside {winner.name}", candidate=name)
    best = max(gains, key=lambda name: gains[name], default=None)
    if best is None or gains[best] < MIN_GAIN:
        return as_it_was
    tuned, variant = candidates[best]
    if not _filed(bench, tuned, measured):
        return as_it_was
    if peer is None or same_steps(peer, winner):
        return Tuned(tuned, None, [winner] if winner.peer else [])
    alike = under(peer, variant)
    with bench.context.events.stage("compiling", f"Building {alike.name}"):
        builds.submit([alike])
        builds.wait([alike], deadline)
    if not bench.shop.is_built(alike) or not _filed(bench, alike, None):
        return Tuned(tuned, peer, [])
    return Tuned(tuned, alike, [peer])


def _proposed(bench: Bench, planner: Planner, winner: Candidate) -> list[Variant]:
    policy, profile = planner.facts.policy, bench.answer.profile
    if not policy.runtime_settings or bench.context.target != "cpu":
        return []
    return variants(
        Plan.of(winner).settings,
        threads=bench.context.threads,
        threads_ms=profile.threads_ms if profile else {},
        backend=backend_of(winner),
        threads_fixed=policy.threads is not None,
    )


def _fits(
    bench: Bench, builds: Builds, winner: Candidate, proposed: Sequence[Variant], contender_s: float, deadline: float
) -> bool:
    """Whether all of it ends before `deadline`: a build for each other number of threads, of the peer too."""
    build_s = builds.took_s(winner) * sum(one.settings.threads is not None for one in proposed)
    measuring_s = (2 + len(proposed)) * contender_s
    return time.monotonic() + 2 * build_s + measuring_s + 2 * VERIFYING_S <= deadline


def _measured(bench: Bench, winner: Candidate, plans: Sequence[Candidate]) -> MeasuredSet:
    every = [winner, *plans]
    starts: dict[str, Any] = {plan.name: starter(bench, plan) for plan in every}
    starts[BASELINE] = starter(bench, bench.baseline(Plan.of(winner).settings))
    return measure_set(
        starts,
        drawing(bench, 18),
        baseline=BASELINE,
        essential={winner.name},
        rng=bench.context.rng(19),
        rounds=FINAL_ROUNDS,
        checks={plan.name: check_of(bench, plan) for plan in every},
    )


def _gain(measured: MeasuredSet, winner: Candidate, plan: Candidate) -> float:
    return float(np.exp(measured.log_speedup(winner.name, plan.name)))


def _filed(bench: Bench, candidate: Candidate, measured: MeasuredSet | None) -> bool:
    """Verifies it in its own settings and files it. Whether it passed."""
    assert bench.verifier is not None
    evaluation, of_build = verified(bench, bench.verifier, candidate)
    if evaluation.status == EvaluationStatus.PASSED and measured is not None:
        items = inputs.items(bench.workload, bench.workload.sizes())
        found = performance([measured.entrants[candidate.name]], items=items, screened=True)
        speedup = float(np.exp(measured.log_speedup(BASELINE, candidate.name)))
        evaluation = evaluation.model_copy(
            update={"performance": found.model_copy(update=of_build), "screened_speedup": speedup}
        )
    bench.answer.file(evaluation)
    return evaluation.status == EvaluationStatus.PASSED
