"""What each step of the winner gives by itself: time without it / time with it, in fresh processes, interleaved.

The winner is often the screening's leader less one rewrite, so that the winner less another is a plan that the search
never built. It is built before the judgement where time allows, the costliest steps first. Where it does not, the step
is measured on the leader, whose leave-one-outs the search did build, and the row names that plan. Offers no candidate.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from optimizer.benchmarking.sets import Check, MeasuredSet, measure_set
from optimizer.benchmarking.statistics import (
    CONFIDENCE,
    look_confidence,
    student_interval,
    verdict,
)
from optimizer.coordinator import judging
from optimizer.coordinator.builds import Builds
from optimizer.coordinator.judging import FINAL_ROUNDS, WINNER, check_of, starter
from optimizer.coordinator.prepare import Bench, drawing
from optimizer.optimizing.planner import LeftOut, Planner, costliest_first, on_larger_plan
from optimizer.result import AblationRow, Candidate, Interval, Verdict
from optimizer.spec import Step, dump_step

ABLATION_LOOKS = (5, 10)  # the second only in a run that is young enough, and while a step is not decided
MIN_ABLATION_SETS = 3
AGAIN_SHARE = 0.4  # of the budget must be left for a second look: whoever waits has the verdict by then
PACKAGE_S = 12.0  # between judgement and ablation the winner is packaged, and the package tries itself
NOT_BUILT = "it was not built within the time budget"
NO_ROOM = "the time budget left no room to measure it"


def reserve_s(asked: Sequence[LeftOut], winner: Candidate, contender_s: float) -> float:
    """What must be left of the budget when the judgement ends, so that every step can be measured."""
    return PACKAGE_S + least_s(asked, winner, contender_s) if asked else 0.0


def least_s(asked: Sequence[LeftOut], winner: Candidate, contender_s: float) -> float:
    """What the shortest ablation that gives intervals takes: winner, each plan without, larger plans."""
    larger = {one.whole.name for one in asked} - {winner.name}
    return MIN_ABLATION_SETS * (1 + len(asked) + len(larger)) * contender_s


def questions(
    bench: Bench,
    planner: Planner,
    builds: Builds,
    winner: Candidate,
    variants: Sequence[LeftOut],
    final: judging.FinalScreening,
) -> list[LeftOut]:
    """What is to be measured, most telling first. Builds what fits before judgement and ablation must begin.

    `variants`: leave-one-outs that the search has built. A question whose plan is not built stays in the list: it is
    answered with the reason.
    """
    context, shop = bench.context, bench.shop
    if not context.spec.policy.ablation:
        return []
    asked = costliest_first(planner.leave_one_out(winner), variants, final.speedups)
    bare = planner.without_settings(winner)
    every = [*([bare] if bare is not None else []), *asked]
    kept_s = judging.least_s(final.contender_s, final.peers) + reserve_s(every, winner, final.contender_s)
    deadline = context.deadline(0.0) - kept_s
    missing = [one.without for one in asked if not shop.is_built(one.without)]
    fitting = builds.fitting(missing, deadline, each_s=builds.took_s(winner))
    if fitting:
        with context.events.stage("compiling", f"Building {winner.name} without each of its steps"):
            builds.submit(fitting)
            builds.wait(fitting, deadline)
    built = [one for one in variants if shop.is_built(one.without) and shop.is_built(one.whole)]
    return [one if shop.is_built(one.without) else on_larger_plan(one, built) or one for one in every]


@dataclass
class _Asked:
    """A row while it is measured. `whole` and `without` are names of contenders."""

    row: AblationRow
    whole: str
    without: str
    logs: list[float] = field(default_factory=list)


def ablate(
    bench: Bench,
    winner: Candidate,
    asked: Sequence[LeftOut],
    *,
    contender_s: float,
    deadline: float,
    spare_s: float = 0.0,
) -> list[AblationRow]:
    """One row a question, in their order; those that `deadline` leaves no room for are not begun, and say so.

    `spare_s`: what sets beyond the fewest leave of the time; the fewest are taken without regard to it.

    The floor is the judgement's, minutes earlier: how far the baseline came out from itself. A row whose own interval
    reaches into it has no verdict.

    The candidates without a step are not verified: they are never offered, and one timed answer a round is compared
    with the winner's.
    """
    rows = [AblationRow(step=_named(one.steps)) for one in asked]
    built = [at for at, one in enumerate(asked) if bench.shop.is_built(one.without)]
    begun = _fitting([asked[at] for at in built], winner, deadline - time.monotonic(), contender_s)
    for at, (row, one) in enumerate(zip(rows, asked, strict=True)):
        if at not in built:
            row.reason = bench.shop.why_not(one.without) or NOT_BUILT
        elif at not in built[:begun]:
            row.reason = NO_ROOM
    measured = [(rows[at], asked[at]) for at in built[:begun]]
    if measured:
        _measure(bench, winner, measured, deadline - spare_s)
    return rows


def _fitting(asked: Sequence[LeftOut], winner: Candidate, left_s: float, contender_s: float) -> int:
    """How many of `asked`, in order, can be measured in `left_s` seconds with an interval."""
    counts = range(len(asked), 0, -1)
    return next((count for count in counts if least_s(asked[:count], winner, contender_s) <= left_s), 0)


def _measure(bench: Bench, winner: Candidate, asked: Sequence[tuple[AblationRow, LeftOut]], deadline: float) -> None:
    """Once begun, as many sets are taken as an interval needs: fewer would be time spent on nothing.

    At most two looks, with the error split between them as in a judgement.
    """
    context = bench.context
    plans: dict[str, Candidate] = {WINNER: winner}
    pending: list[_Asked] = []
    for row, one in asked:
        whole = WINNER
        if one.whole.name != winner.name:
            row.measured_on = whole = one.whole.name
            plans[whole] = one.whole
        plans[one.without.name] = one.without
        pending.append(_Asked(row, whole, one.without.name))
    starts = {name: starter(bench, plan) for name, plan in plans.items()}
    checks: dict[str, Check] = {name: check_of(bench, plan) for name, plan in plans.items() if plan is not winner}
    draw, rng = drawing(bench, 12), context.rng(13)
    taken_s = 0.0
    at_look = look_confidence(CONFIDENCE, len(ABLATION_LOOKS))
    assert bench.answer.same_settings is not None  # the winner was judged
    floor = bench.answer.same_settings.noise_floor
    for number in range(ABLATION_LOOKS[-1]):
        if not pending or (number >= MIN_ABLATION_SETS and time.monotonic() + taken_s > deadline):
            break
        late = context.remaining_s() < AGAIN_SHARE * context.spec.policy.budget_s
        if number in ABLATION_LOOKS and (late or all(_decided(one, floor, at_look) for one in pending)):
            break
        context.events.emit("benchmarking", "Measuring what each step gives", done=number, total=ABLATION_LOOKS[-1])
        needed = {WINNER, *(name for one in pending for name in (one.whole, one.without))}
        live = {name: start for name, start in starts.items() if name in needed}
        one_set = measure_set(live, draw, baseline=WINNER, rng=rng, rounds=FINAL_ROUNDS, checks=checks)
        taken_s = one_set.seconds
        pending = [one for one in pending if _took_part(one, one_set)]
    for filled in pending:
        _fill(filled.row, filled.logs, floor, at_look)


def _took_part(asked: _Asked, one_set: MeasuredSet) -> bool:
    """Adds what the set says of a row; False when one of its two plans failed, which the row then says."""
    for name, role in ((asked.without, "without it"), (asked.whole, "the plan that it would be measured on")):
        if name in one_set.failed:
            asked.row.reason = f"{role}: {one_set.failed[name].message}"
            return False
    asked.logs.append(one_set.log_speedup(asked.without, asked.whole))
    return True


def _decided(asked: _Asked, floor: float, at_look: float) -> bool:
    low, _, high = student_interval(asked.logs, at_look)
    return verdict(low, high, floor) != Verdict.CANNOT_TELL


def _fill(row: AblationRow, values: list[float], floor: float, at_look: float) -> None:
    """The interval is that of the look; both looks together hold the stated confidence."""
    low, gain, high = student_interval(values, at_look)
    row.pairs = len(values)
    row.gain, row.interval = gain, Interval(low=low, high=high, confidence=CONFIDENCE)
    row.noise_floor = floor
    row.verdict = verdict(low, high, floor)


def _named(steps: Sequence[Step]) -> dict[str, Any]:
    """One step as recipes write it; several (the tidying passes) as a list."""
    documents = [dump_step(step) for step in steps]
    return documents[0] if len(documents) == 1 else {"passes": [d["pass"] for d in documents]}
