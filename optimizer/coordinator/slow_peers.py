"""Peers whose build takes minutes: torch.compile in mode max-autotune. Tried last, and only where the time is left.

How long the build takes is told by that of the same engine in its default mode, which has to be correct to be worth it.
Where the policy wants the best peer alone, it has to be near the fastest engine, too. Not on a GPU, where it never ran.
"""

from __future__ import annotations

import time

from optimizer.coordinator.builds import Builds
from optimizer.coordinator.evaluate import not_tried
from optimizer.coordinator.prepare import Bench
from optimizer.optimizing.option_plans import autotuned
from optimizer.optimizing.planner import WORTH_REWRITING
from optimizer.result import Candidate, Evaluation, EvaluationStatus

# Each implementation of a product is compiled by itself to be timed, and the chosen one again with what it is fused to.
TIMES_THE_DEFAULT = 5.0
EVALUATING_S = 20.0  # a process that traces again, its verification and its screening


def slow_peers(bench: Bench, builds: Builds, deadline: float) -> list[Candidate]:
    """Those that can be built and tried by `deadline` (`time.monotonic`); the others are filed with the reason."""
    if bench.context.target != "cpu":
        return []
    passed = [e for e in bench.answer.evaluations.values() if e.status == EvaluationStatus.PASSED]
    best = max([1.0, *(e.screened_speedup or 0.0 for e in passed)])
    chosen: list[Candidate] = []
    left_s = deadline - time.monotonic()
    for known in passed:
        slow = autotuned(known.candidate) if known.candidate.peer else None
        if slow is None:
            continue
        needed_s = TIMES_THE_DEFAULT * bench.shop.build(known.candidate).compile_s + EVALUATING_S
        reason = _too_slow(bench, known, best) or _too_long(needed_s, left_s)
        if reason is None:
            left_s -= needed_s / builds.workers
            chosen.append(slow)
        else:
            bench.answer.file(not_tried(slow, reason))
    return chosen


def _too_slow(bench: Bench, known: Evaluation, best: float) -> str | None:
    share = (known.screened_speedup or 0.0) / best
    if bench.context.spec.policy.rivals != "best" or share >= WORTH_REWRITING:
        return None
    return f"{known.candidate.name} reaches {share:.0%} of the fastest candidate's speed"


def _too_long(needed_s: float, left_s: float) -> str | None:
    if needed_s <= left_s:
        return None
    return f"it takes some {needed_s:.0f} s to compile and to try, and {max(left_s, 0.0):.0f} s are left for it"
