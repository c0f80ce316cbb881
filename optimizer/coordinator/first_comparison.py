"""The first comparison that may be trusted, early in a run: one candidate against the original, in fresh processes.

A screening tells a speedup of one process, which is no interval. This one is of a few pairs, so that whoever watches
knows within about a minute what to expect. It judges nothing and chooses nothing: the judgement measures anew. Not
where the budget is too short to spend any of it on looking, nor once the judgement is near anyway.
"""

from __future__ import annotations

from typing import Any

from optimizer.benchmarking.sets import measure_set
from optimizer.benchmarking.statistics import CONFIDENCE, student_interval
from optimizer.coordinator.context import RunContext
from optimizer.coordinator.judging import BASELINE, check_of, starter
from optimizer.coordinator.prepare import Bench, drawing
from optimizer.errors import FuseworksError
from optimizer.result import Candidate, FirstComparison, Interval
from optimizer.spec import RuntimeSettings

LEAST_PAIRS, MOST_PAIRS = 4, 6
ROUNDS, WARM_UP_S = 5, 1.0
WISHED_S, LATEST_S = 60.0, 120.0  # since the run began: when it should be told, and when it is not begun any more
MIN_BUDGET_S = 240.0
MOST_S = 60.0  # for the fewest pairs
CANDIDATE = "candidate"
MACHINES_FAULT = {"benchmarking:ours:busy"}


def compare_first(bench: Bench, candidate: Candidate, settings: RuntimeSettings) -> None:
    """Fills `first_comparison` of the answer and tells it. A failure of the candidate is told, and costs no more."""
    context = bench.context
    if not has_room(context):
        return
    with context.events.stage("benchmarking", f"A first comparison of {candidate.name}", candidate.name):
        try:
            logs = _pairs(bench, candidate, settings)
        except FuseworksError as error:
            if error.id in MACHINES_FAULT:
                raise
            context.events.emit("log", f"No first comparison: {error.message}", candidate=candidate.name)
            return
    if len(logs) < LEAST_PAIRS:
        context.events.emit(
            "log", "No first comparison: a pair of processes takes too long here", candidate=candidate.name
        )
        return
    low, speedup, high = student_interval(logs, CONFIDENCE)
    found = FirstComparison(
        base=BASELINE,
        other=candidate.name,
        speedup=speedup,
        interval=Interval(low=low, high=high, confidence=CONFIDENCE),
        pairs=len(logs),
        at_s=round(context.events.elapsed_s(), 1),
        log_speedups=logs,
    )
    bench.answer.first_comparison = found
    context.events.emit(
        "benchmarking",
        f"First comparison: {candidate.name} is {speedup:.2f}x [{low:.2f}, {high:.2f}] as fast as the original, in "
        f"{len(logs)} pairs of fresh processes; no verdict yet",
        candidate=candidate.name,
        first_comparison=found.model_dump(mode="json"),
    )


def has_room(context: RunContext) -> bool:
    return context.spec.policy.budget_s >= MIN_BUDGET_S and context.events.elapsed_s() <= LATEST_S


def _pairs(bench: Bench, candidate: Candidate, settings: RuntimeSettings) -> list[float]:
    """When it stops depends on the clock alone; after the first, where that shows that four would take too long. Raises
    FuseworksError."""
    context, logs, set_s = bench.context, list[float](), 0.0
    starts: dict[str, Any] = {
        CANDIDATE: starter(bench, candidate),
        BASELINE: starter(bench, bench.baseline(settings)),
    }
    draw, rng = drawing(bench, 16), context.rng(17)
    while len(logs) < LEAST_PAIRS or (len(logs) < MOST_PAIRS and context.events.elapsed_s() + set_s < WISHED_S):
        one = measure_set(
            starts,
            draw,
            baseline=BASELINE,
            essential={CANDIDATE},
            rng=rng,
            rounds=ROUNDS,
            warm_up_s=WARM_UP_S,
            checks={CANDIDATE: check_of(bench, candidate)},
        )
        set_s = one.seconds
        logs.append(one.log_speedup(BASELINE, CANDIDATE))
        if LEAST_PAIRS * set_s > MOST_S and len(logs) == 1:
            break
    return logs
