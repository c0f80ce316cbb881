"""Finalists, the judgement of the winner in fresh processes, and the ablation of its steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from optimizer import inputs
from optimizer.benchmarking.bursts import Entrant
from optimizer.benchmarking.judge import LOOKS, JudgeOutcome, Pair, judge, planned_looks
from optimizer.benchmarking.sets import Check, measure_set
from optimizer.benchmarking.statistics import CONFIDENCE, noise_floor, student_interval, verdict
from optimizer.benchmarking.summary import held_back, performance, recheck
from optimizer.coordinator.evaluate import drawing
from optimizer.coordinator.prepare import Bench
from optimizer.coordinator.workshop import Loaded, Plan
from optimizer.errors import FuseworksError
from optimizer.result import AblationRow, Candidate, Interval, Performance
from optimizer.spec import RuntimeSettings, Step, dump_step

FINAL_ROUNDS = 8
ABLATION_SETS = 5
MIN_ABLATION_SETS = 3
CACHE_BANDWIDTH_FACTOR = 10
BASELINE, WINNER, PEER, DEPLOYED = "baseline", "winner", "best_peer", "baseline_default"
AGAIN = "winner_again"


def starter(bench: Bench, candidate: Candidate, settings: RuntimeSettings | None = None) -> Callable[[], Loaded]:
    """Starts a fresh process of a candidate, under its own settings unless others are given."""
    built = bench.shop.build(candidate)
    chosen = Plan.of(candidate).settings if settings is None else settings
    return lambda: bench.shop.load(built, chosen)


def check_of(bench: Bench, candidate: Candidate) -> Check:
    assert bench.verifier is not None
    return bench.verifier.agreement(Plan.of(candidate).precision_name)


def final_screening(
    bench: Bench, candidates: Sequence[Candidate], settings: RuntimeSettings
) -> tuple[dict[str, float], dict[str, FuseworksError]]:
    """All finalists interleaved in one set of fresh processes: speedups over the baseline, and those that failed."""
    starts: dict[str, Any] = {c.name: starter(bench, c) for c in candidates}
    starts[BASELINE] = starter(bench, bench.baseline(settings))
    measured = measure_set(
        starts,
        drawing(bench, 5),
        baseline=BASELINE,
        rng=bench.context.rng(6),
        rounds=FINAL_ROUNDS,
        checks={c.name: check_of(bench, c) for c in candidates},
    )
    names = [c.name for c in candidates if c.name in measured.entrants]
    return {name: float(np.exp(measured.log_speedup(BASELINE, name))) for name in names}, measured.failed


def judge_winner(
    bench: Bench, winner: Candidate, peer: Candidate | None, settings: RuntimeSettings, deadline: float
) -> JudgeOutcome:
    """Winner, best peer and baseline under `settings`, and the baseline in default settings when those differ."""
    context = bench.context
    pairs = [Pair(BASELINE, WINNER)]
    starts: dict[str, Any] = {
        WINNER: starter(bench, winner),
        BASELINE: starter(bench, bench.baseline(settings)),
    }
    checks = {WINNER: check_of(bench, winner)}
    if peer is not None:
        starts[PEER] = starter(bench, peer)
        checks[PEER] = check_of(bench, peer)
        pairs += [Pair(PEER, WINNER), Pair(BASELINE, PEER)]
    if settings != RuntimeSettings():
        starts[DEPLOYED] = starter(bench, bench.baseline(RuntimeSettings()))
        pairs.append(Pair(DEPLOYED, WINNER, same_settings=False))
        if peer is not None:
            pairs.append(Pair(DEPLOYED, PEER, same_settings=False))
    looks = planned_looks(context.spec.policy.max_pairs, LOOKS)

    def progress(message: str, done: int, total: int) -> None:
        context.events.emit("benchmarking", message, candidate=winner.name, done=done, total=total)

    try:
        outcome = judge(
            starts,
            pairs,
            drawing(bench, 7),
            rng=context.rng(8),
            looks=looks,
            deadline=deadline,
            checks=checks,
            reference=bench.reference,
            essential={WINNER},
            progress=progress,
        )
        _believe(bench, outcome, starts, checks)
    finally:
        if bench.reference is not None:
            bench.reference.pause()
    return outcome


def _believe(bench: Bench, outcome: JudgeOutcome, starts: Mapping[str, Any], checks: Mapping[str, Check]) -> None:
    """What is too good is measured again with every answer compared; it must hold."""
    comparison = outcome.comparison(BASELINE, WINNER)
    assert comparison is not None
    best_ms = summary(bench, outcome.samples[WINNER]).median_ms
    roofline_ms = roofline_bound_ms(bench)
    reason = held_back(comparison.speedup, best_ms, roofline_ms)
    if reason is None:
        return
    bench.context.events.emit("benchmarking", f"Held back and measured again: {reason}")
    rejected = recheck(
        starts,
        BASELINE,
        WINNER,
        drawing(bench, 9),
        judged_speedup=comparison.speedup,
        rng=bench.context.rng(10),
        checks=checks,
        reference=bench.reference,
    )
    if rejected is not None:
        raise FuseworksError("benchmarking:user:did-not-repeat", text=rejected)


def roofline_bound_ms(bench: Bench) -> float | None:
    """The shortest time in which a call's inputs can be read.

    A rewrite may do without any of the original's FLOPs, so the original graph's work bounds nothing; every input must
    still be read once. They were just staged and may lie in the caches, so ten times the memory's bandwidth is granted.
    """
    bandwidth = bench.roofs.get("bandwidth_bytes_per_s")
    if not isinstance(bandwidth, (int, float)) or bandwidth <= 0:
        return None
    arrays = drawing(bench, 11)()
    return float(sum(array.nbytes for array in arrays) / (CACHE_BANDWIDTH_FACTOR * bandwidth) * 1e3)


def summary(bench: Bench, entrants: Sequence[Entrant]) -> Performance:
    return performance(entrants, items=inputs.items(bench.workload, bench.workload.sizes()))


def ablate(
    bench: Bench, winner: Candidate, without: Sequence[tuple[Sequence[Step], Candidate]], *, deadline: float
) -> list[AblationRow]:
    """What each group of steps gives by itself: time without it / time with it, in fresh processes, interleaved.

    A second process of the winner in each set gives the floor, of as many pairs and rounds. The candidates without a
    step are not verified: they are never offered, and one timed answer a round is compared with the winner's.
    """
    context = bench.context
    starts: dict[str, Any] = {WINNER: starter(bench, winner)}
    starts[AGAIN] = starts[WINNER]
    checks: dict[str, Check] = {}
    rows: dict[str, AblationRow] = {}
    for steps, candidate in without:
        row = AblationRow(step=_named(steps))
        rows[candidate.name] = row
        if not bench.shop.is_built(candidate):
            row.reason = bench.shop.why_not(candidate) or "it was not built within the time budget"
            continue
        starts[candidate.name] = starter(bench, candidate)
        checks[candidate.name] = check_of(bench, candidate)
    logs: dict[str, list[float]] = {name: [] for name in starts if name != WINNER}
    draw, rng = drawing(bench, 12), context.rng(13)
    taken_s = 0.0
    for number in range(ABLATION_SETS):
        if len(logs) < 2 or (number and time.monotonic() + taken_s > deadline):
            break
        context.events.emit("benchmarking", "Measuring what each step gives", done=number, total=ABLATION_SETS)
        one = measure_set(starts, draw, baseline=WINNER, essential={AGAIN}, rng=rng, rounds=FINAL_ROUNDS, checks=checks)
        taken_s = one.seconds
        for name in list(logs):
            if name in one.failed:
                rows[name].reason = f"without it: {one.failed[name].message}"
                del logs[name], starts[name]
            else:
                logs[name].append(one.log_speedup(name, WINNER))
    again = logs.pop(AGAIN)
    floor = noise_floor(again, CONFIDENCE) if len(again) >= MIN_ABLATION_SETS else 0.0
    for name, values in logs.items():
        _fill(rows[name], values, floor)
    return list(rows.values())


def _fill(row: AblationRow, values: list[float], floor: float) -> None:
    row.pairs = len(values)
    if len(values) < MIN_ABLATION_SETS:
        row.reason = "the time budget left too few pairs of processes for an interval"
        row.gain = float(np.exp(np.mean(values))) if values else None
        return
    low, gain, high = student_interval(values, CONFIDENCE)
    row.gain, row.interval = gain, Interval(low=low, high=high, confidence=CONFIDENCE)
    row.verdict = verdict(low, high, floor)


def _named(steps: Sequence[Step]) -> dict[str, Any]:
    """One step as recipes write it; several (the tidying passes) as a list."""
    documents = [dump_step(step) for step in steps]
    return documents[0] if len(documents) == 1 else {"passes": [d["pass"] for d in documents]}
