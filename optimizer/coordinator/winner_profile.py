"""Where the winner spends its time: profiled once it has been judged, when nothing is measured any more.

A profile costs its place in the table only: what it needs is kept of the time budget where there is some, and a profile
that fails or finds no time left becomes a note. Its times are of a process of its own, and never a verdict.
"""

from __future__ import annotations

from optimizer.compiling.base import BACKENDS, Backend
from optimizer.coordinator.prepare import PROFILE_CALLS, Bench, profile, profiled
from optimizer.coordinator.workshop import Plan
from optimizer.errors import FuseworksError
from optimizer.result import Candidate

PROCESS_S = 12.0  # a process started, an engine imported, the artifact loaded twice
EVERY_CALL = 3 * (PROFILE_CALLS + 3)  # of those that are looked at and those that are not, and the profiler's own cost


def reserve_s(bench: Bench, winner: Candidate) -> float:
    """The seconds that the profile of a built candidate takes; 0 where its backend has none."""
    plan = Plan.of(winner)
    backend: Backend = BACKENDS.get(plan.backend.backend)
    if backend.no_profile(bench.context.target) is not None:
        return 0.0
    evaluation = bench.answer.evaluations.get(winner.name)
    performance = evaluation.performance if evaluation is not None else None
    calls_s = EVERY_CALL * performance.median_ms / 1e3 if performance is not None else 0.0
    # it compiled beside others then, and does so alone now
    return PROCESS_S + calls_s + (bench.shop.build(winner).compile_s if backend.needs_marks else 0.0)


def profile_winner(bench: Bench, winner: Candidate) -> None:
    """Fills `profile_after`, or says in a note why there is none. Raises nothing that a profile may run into."""
    answer, reason = bench.answer, _why_not(bench, winner)
    if reason is None:
        try:
            with bench.context.events.stage("profiling", f"Profiling {winner.name}, operation by operation"):
                _profile(bench, winner)
        except FuseworksError as error:
            reason = error.message
    if reason is not None:
        answer.not_profiled_because = reason
        answer.note(bench.context, f"{winner.name} was not profiled: {reason}")


def profile_both(bench: Bench, winner: Candidate) -> None:
    """Where the baseline was not profiled in the beginning: it and the winner, for as long as there is time."""
    if bench.answer.profile is None and bench.context.remaining_s() > PROCESS_S + reserve_s(bench, winner):
        profile(bench)
    profile_winner(bench, winner)


def _why_not(bench: Bench, winner: Candidate) -> str | None:
    backend: Backend = BACKENDS.get(Plan.of(winner).backend.backend)
    untold = backend.no_profile(bench.context.target)
    if untold is not None:
        return f"{backend.title}: {untold}"
    needed_s, left_s = reserve_s(bench, winner), bench.context.remaining_s()
    if left_s < needed_s:
        return f"{max(left_s, 0.0):.0f} s of the time budget were left, and it takes some {needed_s:.0f} s"
    return None


def _profile(bench: Bench, winner: Candidate) -> None:
    context = bench.context
    marked = None
    if BACKENDS.get(Plan.of(winner).backend.backend).needs_marks:
        marked = bench.shop.build_marked(winner, timeout_s=context.remaining_s())
    bench.answer.profile_after = profiled(bench, winner, timeout_s=max(context.remaining_s(), 1.0), marked=marked)
