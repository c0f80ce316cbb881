"""Purpose `optimize`: capture, profile, rewrite, compile, verify, screen, judge, explain, package.

It never stops at the first winner: every engine and every rewrite that applied is tried while the budget lasts, and
what is not tried is named with its reason. "No faster recipe" is a success that says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from optimizer import machine
from optimizer.compiling.precision import supported as bfloat16_refusal
from optimizer.coordinator import deliver, judging
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.builds import Builds
from optimizer.coordinator.context import RunContext
from optimizer.coordinator.evaluate import Evaluator, evaluator, failed, not_tried
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
from optimizer.optimizing.planner import Facts, Planner, longest_first, same_steps, tidying
from optimizer.result import Candidate, Evaluation, EvaluationStatus
from optimizer.spec import RuntimeSettings, Step
from optimizer.verifying.verify import Verifier

# Of the budget, what the judgement of the winner and the ablation keep for themselves.
JUDGING_SHARE, ABLATION_SHARE = 0.3, 0.15
FINALISTS, PEER_FINALISTS = 3, 2
NOT_THE_CANDIDATES = {"benchmarking:ours:busy", "child:ours:unexpected"}
BACKGROUND = 2  # engines built while the graph is matched and the reference computed
NEAR = 0.93  # finalists: within 7 % of the leader of the screening


def optimize(context: RunContext, answer: Answer) -> None:
    """Raises FuseworksError; what was found until then is in the answer."""
    bench = prepare(context, answer, Path(context.spec.model))
    try:
        _optimize(bench)
    finally:
        bench.close()


def _optimize(bench: Bench) -> None:
    context = bench.context
    engines = backends(context, bench.captured)
    if any(engines.get(name, "") is None for name in ("inductor", "aot_inductor")):
        context.unhurried(ready_toolchain)
    profile(bench)
    settings = honoured_settings(context)
    planner = Planner(
        Facts(
            format=bench.captured.format,
            baseline_backend=bench.captured.baseline_backend,
            backends=engines,
            settings=settings,
            policy=context.spec.policy,
            bfloat16_refusal=bfloat16_refusal(machine.cpu_isa()),
        )
    )
    builds = Builds(bench)
    try:
        peers = planner.peers()
        context.events.emit("compiling", f"Building {len(peers)} engines in the background, {builds.workers} at a time")
        first, later = peers[:BACKGROUND], peers[BACKGROUND:]
        builds.submit(first)
        find_rewrites(bench)
        planner.rewrites = bench.answer.rewrites
        find_causes(bench)
        rewritten = planner.first_rewritten()
        builds.submit([*rewritten, *later])
        _search(bench, planner, builds, [*rewritten, *peers, *planner.low_precision()], make_verifier(bench))
    finally:
        builds.close()


def _search(bench: Bench, planner: Planner, builds: Builds, first: list[Candidate], verifier: Verifier) -> None:
    answer, settings = bench.answer, planner.facts.settings
    with evaluator(bench, verifier, settings) as judge:
        _round(bench, builds, judge, first)
        alone = {e.candidate.name: e.screened_speedup or 0.0 for e in _passed(answer) if e.candidate.peer}
        _round(bench, builds, judge, planner.more_rewritten(alone))
        variants = _leave_one_out(bench, planner, builds)
        ranked, peer = _finals(bench, variants, settings)
        for dropped in planner.dropped:
            answer.file(not_tried(dropped.candidate, dropped.reason))
        for winner in ranked:
            # a variant that leads has not been verified yet: nothing wrong is ever offered
            if winner.name not in answer.evaluations and judge.evaluate(winner).status != EvaluationStatus.PASSED:
                continue
            if _judged_and_delivered(bench, planner, builds, winner, peer):
                return
    deliver.deliver(bench, deliver.Judged(None, peer, settings))


def _judged_and_delivered(
    bench: Bench, planner: Planner, builds: Builds, winner: Candidate, peer: Candidate | None
) -> bool:
    """False when the candidate failed in the judgement: it is filed as such, and the next one gets its chance."""
    context, answer = bench.context, bench.answer
    questions = _ablation_questions(bench, planner, builds, winner)
    try:
        outcome = deliver.judged(bench, winner, peer, deadline=context.deadline(ABLATION_SHARE if questions else 0.0))
    except FuseworksError as error:
        if error.id in NOT_THE_CANDIDATES:
            raise
        answer.file(failed(winner, error))
        context.events.emit("benchmarking", f"{winner.name} failed while it was judged: {error.message}")
        return False
    deliver.deliver(bench, outcome)
    if questions and outcome.winner is winner:
        try:
            with context.events.stage("benchmarking", "Measuring what each step of the winner gives by itself"):
                answer.ablation = judging.ablate(bench, winner, questions, deadline=context.deadline(0.0))
        except FuseworksError as error:
            answer.note(context, f"The steps could not be measured one by one: {error.message}")
    return True


def _round(bench: Bench, builds: Builds, judge: Evaluator, candidates: Sequence[Candidate]) -> None:
    """Built side by side ahead of time, then verified and screened one after another: compiling disturbs measuring."""
    context = bench.context
    candidates = _without_repeats(candidates)
    reserve = JUDGING_SHARE + (ABLATION_SHARE if context.spec.policy.ablation else 0.0)
    builds.submit(longest_first(candidates))
    builds.wait(candidates, context.deadline(reserve))
    for candidate in candidates:
        if not builds.ended(candidate):
            bench.answer.file(not_tried(candidate, "the time budget was over before it was built"))
        elif context.remaining_s() < reserve * context.spec.policy.budget_s and _passed(bench.answer):
            bench.answer.file(not_tried(candidate, "the rest of the time budget is kept for judging the leader"))
        else:
            judge.evaluate(candidate)


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


def _leave_one_out(bench: Bench, planner: Planner, builds: Builds) -> list[Candidate]:
    """The best rewritten candidate without each rewrite in turn, built side by side.

    Not without the tidying passes: they are exact, and only the ablation asks what they give.
    """
    rewritten = [e.candidate for e in _passed(bench.answer) if not e.candidate.peer]
    if not rewritten:
        return []
    leader = rewritten[0]
    variants = [candidate for steps, candidate in planner.leave_one_out(leader) if not tidying(steps)]
    if len(variants) == 1:
        return []  # without its only rewrite that does anything, the leader is the engine alone: a peer
    with bench.context.events.stage("compiling", f"Building {leader.name} without each of its rewrites in turn"):
        builds.submit(variants)
        builds.wait(variants, bench.context.deadline(JUDGING_SHARE))
    for candidate in variants:
        if not bench.shop.is_built(candidate):
            bench.answer.file(not_tried(candidate, "it was not built within the time budget"))
    return [candidate for candidate in variants if bench.shop.is_built(candidate)]


def _finals(
    bench: Bench, variants: list[Candidate], settings: RuntimeSettings
) -> tuple[list[Candidate], Candidate | None]:
    """Ranks winners and chooses the best peer from one interleaved set of fresh processes, which judges nothing."""
    passed = _passed(bench.answer)
    if not passed:
        return [], None
    best = passed[0].screened_speedup or 1.0
    peers = [e.candidate for e in passed if e.candidate.peer][:PEER_FINALISTS]
    ours = [e.candidate for e in passed if not e.candidate.peer and (e.screened_speedup or 0.0) >= NEAR * best]
    finalists = [*ours[:FINALISTS], *variants, *peers]
    with bench.context.events.stage("benchmarking", "Choosing among the finalists, interleaved in fresh processes"):
        speedups, failures = judging.final_screening(bench, finalists, settings)
    for name, speedup in speedups.items():
        bench.context.events.emit("benchmarking", f"{name}: {speedup:.2f}x", candidate=name, speedup=speedup)
        known = bench.answer.evaluations.get(name)
        if known is not None:  # interleaved with all finalists, it is the better of the two screenings
            bench.answer.file(known.model_copy(update={"screened_speedup": speedup}))
    for candidate in finalists:
        if candidate.name in failures:
            bench.answer.file(failed(candidate, failures[candidate.name]))
    ranked = sorted((c for c in finalists if c.name in speedups), key=lambda c: -speedups[c.name])
    for candidate in variants:
        if candidate in ranked[1:]:
            share = speedups[candidate.name] / speedups[ranked[0].name]
            bench.context.events.emit(
                "log", f"{candidate.name} reaches {share:.0%} of the leader's speed and is not pursued"
            )
    return ranked, next((c for c in ranked if c.peer), None)


def _ablation_questions(
    bench: Bench, planner: Planner, builds: Builds, winner: Candidate | None
) -> list[tuple[list[Step], Candidate]]:
    """The winner without each of its steps, built before the judgement begins; those without a build are asked too,
    and answered with the reason."""
    if winner is None or not bench.context.spec.policy.ablation:
        return []
    questions = planner.leave_one_out(winner)
    bare = planner.without_settings(winner)
    if questions:
        with bench.context.events.stage("compiling", f"Building {winner.name} without each of its steps"):
            builds.submit([candidate for _, candidate in questions])
            builds.wait([candidate for _, candidate in questions], bench.context.deadline(JUDGING_SHARE))
    return [*([([winner.steps[0]], bare)] if bare is not None else []), *questions]
