"""Purpose `optimize`: capture, profile, rewrite, compile, verify, screen, judge, explain, package.

It never stops at the first winner: every engine and every rewrite that applied is tried while the budget lasts, and
what is not tried is named with its reason. "No faster recipe" is a success that says so.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from optimizer import machine
from optimizer.compiling.precision import supported as bfloat16_refusal
from optimizer.coordinator import deliver, judging
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.context import RunContext
from optimizer.coordinator.evaluate import Evaluator, evaluator, not_tried
from optimizer.coordinator.prepare import (
    Bench,
    backends,
    find_causes,
    find_rewrites,
    honoured_settings,
    make_verifier,
    prepare,
    profile,
    ready_toolchain,
)
from optimizer.errors import FuseworksError
from optimizer.optimizing.planner import Facts, Planner, same_steps, tidying
from optimizer.result import Candidate, Evaluation, EvaluationStatus
from optimizer.spec import RuntimeSettings, Step

# Of the budget, what the judgement of the winner and the ablation keep for themselves.
JUDGING_SHARE, ABLATION_SHARE = 0.3, 0.15
FINALISTS, PEER_FINALISTS = 3, 2
NEAR = 0.93  # finalists: within 7 % of the leader of the screening


def optimize(context: RunContext, answer: Answer) -> None:
    """Raises FuseworksError; what was found until then is in the answer."""
    bench = prepare(context, answer, Path(context.spec.model))
    try:
        _optimize(bench)
    finally:
        bench.close()


def _optimize(bench: Bench) -> None:
    context, answer = bench.context, bench.answer
    engines = backends(context, bench.captured)
    if any(engines.get(name, "") is None for name in ("inductor", "aot_inductor")):
        context.unhurried(ready_toolchain)
    find_rewrites(bench)
    profile(bench)
    find_causes(bench)
    verifier = make_verifier(bench)
    settings = honoured_settings(context)
    planner = Planner(
        Facts(
            format=bench.captured.format,
            baseline_backend=bench.captured.baseline_backend,
            backends=engines,
            rewrites=answer.rewrites,
            settings=settings,
            policy=context.spec.policy,
            bfloat16_refusal=bfloat16_refusal(machine.cpu_isa()),
        )
    )
    with evaluator(bench, verifier, settings) as judge:
        _first_rounds(bench, planner, judge)
        without = _leave_one_out(bench, planner)
        winner, peer = _finals(bench, judge, without, settings)
    for dropped in planner.dropped:
        answer.file(not_tried(dropped.candidate, dropped.reason))
    outcome = deliver.judged(bench, winner, peer, settings, deadline=context.deadline(ABLATION_SHARE))
    winner = outcome.winner
    if context.spec.policy.ablation:
        _ablation(bench, planner, winner, outcome.noise_floor)
    deliver.deliver(bench, outcome)


def _first_rounds(bench: Bench, planner: Planner, judge: Evaluator) -> None:
    """Every engine alone and the rewritten graph on one; then the rewritten graph on each engine that holds its own."""
    _round(bench, judge, [*planner.peers(), *planner.first_rewritten(), *planner.low_precision()])
    peers = {e.candidate.name: e.screened_speedup or 0.0 for e in _passed(bench.answer) if e.candidate.peer}
    _round(bench, judge, planner.more_rewritten(peers))


def _round(bench: Bench, judge: Evaluator, candidates: Sequence[Candidate]) -> None:
    """Built side by side ahead of time, then verified and screened one after another: compiling disturbs measuring."""
    context = bench.context
    candidates = _without_repeats(candidates)
    if not candidates:
        return
    reserve = JUDGING_SHARE + (ABLATION_SHARE if context.spec.policy.ablation else 0.0)
    workers = max(1, min(context.threads, 4))
    context.events.emit("compiling", f"Building {len(candidates)} candidates, {workers} at a time")
    with ThreadPoolExecutor(max_workers=workers) as pool:
        builds = {c.name: pool.submit(_built, bench, c) for c in candidates}
        _wait(context, builds, reserve)
    for candidate in candidates:
        if builds[candidate.name].cancelled():
            bench.answer.file(not_tried(candidate, "the time budget was over before it was built"))
        elif context.remaining_s() < reserve * context.spec.policy.budget_s and _leader(bench.answer):
            bench.answer.file(not_tried(candidate, "the rest of the time budget is kept for judging the leader"))
        else:
            judge.evaluate(candidate)


def _built(bench: Bench, candidate: Candidate) -> None:
    """Builds ahead; an error is raised again, and reported, when the candidate is evaluated."""
    try:
        bench.shop.build(candidate)
        bench.context.events.emit("compiling", f"Built {candidate.name}", candidate=candidate.name)
    except FuseworksError as error:
        bench.context.events.emit("compiling", f"{candidate.name}: {error.message}", candidate=candidate.name)


def _wait(context: RunContext, builds: dict[str, Future[None]], reserve: float) -> None:
    """Builds not begun when only the reserve is left are cancelled; one that runs is waited for."""
    for future in builds.values():
        left = context.remaining_s() - reserve * context.spec.policy.budget_s
        try:
            future.result(timeout=max(left, 0.0))
        except TimeoutError:
            for other in builds.values():
                other.cancel()
            break
    for future in builds.values():
        if not future.cancelled():
            future.result()


def _without_repeats(candidates: Sequence[Candidate]) -> list[Candidate]:
    unique: list[Candidate] = []
    for candidate in candidates:
        if not any(same_steps(candidate, other) for other in unique):
            unique.append(candidate)
    return unique


def _passed(answer: Answer) -> list[Evaluation]:
    """Passed evaluations, fastest in the screening first."""
    passed = [e for e in answer.evaluations.values() if e.status == EvaluationStatus.PASSED]
    return sorted(passed, key=lambda e: -(e.screened_speedup or 0.0))


def _leader(answer: Answer) -> Candidate | None:
    passed = _passed(answer)
    return passed[0].candidate if passed else None


def _leave_one_out(bench: Bench, planner: Planner) -> list[Candidate]:
    """The best rewritten candidate without each rewrite in turn, built side by side.

    Not without the tidying passes: they are exact, and only the ablation asks what they give.
    """
    rewritten = [e.candidate for e in _passed(bench.answer) if not e.candidate.peer]
    if not rewritten:
        return []
    leader = rewritten[0]
    variants = [candidate for steps, candidate in planner.leave_one_out(leader) if not tidying(steps)]
    if len(variants) == 1:
        return []  # the leader without its only rewrite is a peer
    left = bench.context.remaining_s() - JUDGING_SHARE * bench.context.spec.policy.budget_s
    with (
        bench.context.events.stage("compiling", f"Building {leader.name} without each of its rewrites in turn"),
        ThreadPoolExecutor(max_workers=max(1, min(bench.context.threads, 4))) as pool,
    ):
        builds = {c.name: pool.submit(_built, bench, c) for c in variants}
        deadline = time.monotonic() + max(left, 0.0)
        for future in builds.values():
            try:
                future.result(timeout=max(deadline - time.monotonic(), 0.0))
            except TimeoutError:
                for other in builds.values():
                    other.cancel()
    for candidate in variants:
        if not bench.shop.is_built(candidate):
            bench.answer.file(not_tried(candidate, "it was not built within the time budget"))
    return [candidate for candidate in variants if bench.shop.is_built(candidate)]


def _finals(
    bench: Bench, judge: Evaluator, variants: list[Candidate], settings: RuntimeSettings
) -> tuple[Candidate | None, Candidate | None]:
    """Chooses winner and best peer from one interleaved set of fresh processes. What it measured judges nothing."""
    passed = _passed(bench.answer)
    if not passed:
        return None, None
    best = passed[0].screened_speedup or 1.0
    peers = [e.candidate for e in passed if e.candidate.peer][:PEER_FINALISTS]
    ours = [e.candidate for e in passed if not e.candidate.peer and (e.screened_speedup or 0.0) >= NEAR * best]
    finalists = [*ours[:FINALISTS], *variants, *peers]
    with bench.context.events.stage("benchmarking", "Choosing among the finalists, interleaved in fresh processes"):
        speedups = judging.final_screening(bench, finalists, settings)
    for name, speedup in speedups.items():
        bench.context.events.emit("benchmarking", f"{name}: {speedup:.2f}x", candidate=name, speedup=speedup)
    peer = max((c for c in peers if c.name in speedups), key=lambda c: speedups[c.name], default=None)
    for candidate in sorted(finalists, key=lambda c: -speedups.get(c.name, 0.0)):
        # a variant that leads has not been verified yet: nothing wrong is ever offered
        if candidate.name in bench.answer.evaluations or judge.evaluate(candidate).status == EvaluationStatus.PASSED:
            return candidate, peer
    return None, peer


def _ablation(bench: Bench, planner: Planner, winner: Candidate | None, floor: float) -> None:
    """What each step of the winner gives by itself, within what is left of the budget."""
    if winner is None:
        return
    variants = planner.leave_one_out(winner)
    bare = planner.without_settings(winner)
    settings_step: list[tuple[list[Step], Candidate]] = []
    if bare is not None:
        settings_step = [([winner.steps[0]], bare)]
    if not variants and not settings_step:
        return
    context = bench.context
    with context.events.stage("benchmarking", "Measuring what each step of the winner gives by itself"):
        bench.answer.ablation = judging.ablate(
            bench, winner, [*settings_step, *variants], floor=floor, deadline=context.deadline(0.0)
        )
