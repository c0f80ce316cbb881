"""Purpose `optimize`: capture, profile, rewrite, compile, verify, screen, judge, explain, package.

It never stops at the first winner: every engine and every rewrite that applied is tried while the budget lasts, and
what is not tried is named with its reason. "No faster recipe" is a success that says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from optimizer.coordinator import (
    ablation,
    deliver,
    explain,
    first_comparison,
    judging,
    layer_plans,
    rivals,
    settings_search,
    winner_profile,
)
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.builds import Builds, longest_first
from optimizer.coordinator.context import RunContext
from optimizer.coordinator.evaluate import Evaluator, evaluator, failed, not_tried
from optimizer.coordinator.limits import settle_precisions
from optimizer.coordinator.outcomes import Outcomes, most_promising_first
from optimizer.coordinator.peers import JUDGING_SHARE, PEER_FINALISTS, planner_of
from optimizer.coordinator.prepare import (
    Bench,
    find_causes,
    find_rewrites,
    honoured_settings,
    make_verifier,
    prepare,
    profile,
)
from optimizer.coordinator.rescue import Rescue
from optimizer.coordinator.slow_peers import slow_peers
from optimizer.errors import FuseworksError
from optimizer.optimizing.option_plans import OTHER_LIBRARY, option_variants
from optimizer.optimizing.planner import (
    LeftOut,
    Planner,
    has_passes,
    no_less_precise,
    precision_of,
    same_steps,
    tidying,
)
from optimizer.optimizing.settings_plans import backend_of
from optimizer.result import Candidate, Evaluation, EvaluationStatus, Finalist
from optimizer.spec import RuntimeSettings

# Of the budget, what the search keeps for the ablation beside the judgement. A guess that fits most models; once the
# finalists were measured, what a contender costs takes its place.
ABLATION_SHARE = 0.15
RIVALS_SHARE = 0.15  # more for the judgement where all peers take part in it
VARIANTS_SHARE = 0.1  # what the second round leaves for the leader without each of its rewrites
FINALISTS = 3
NOT_THE_CANDIDATES = {"benchmarking:ours:busy", "child:ours:unexpected"}
YOUNG_SHARE = 0.2  # of the budget
NEAR = 0.93  # finalists: within 7 % of the leader of the screening


class Finals(NamedTuple):
    """Those worth judging and the peers, fastest first; what they were chosen from, and by which figures."""

    ranked: list[Candidate]
    peers: list[Candidate]
    variants: list[LeftOut]
    screening: judging.FinalScreening

    def peer_of(self, winner: Candidate) -> Candidate | None:
        """The best that is no less precise than the winner, and any other where none is: what bfloat16 gives is no gain
        of a rewrite."""
        alike = [peer for peer in self.peers if precision_of(peer) in no_less_precise(winner)]
        return next(iter([*alike, *self.peers]), None)


def optimize(context: RunContext, answer: Answer) -> None:
    """Raises FuseworksError; what was found until then is in the answer. Where the target's GPU is not here, what can
    be said without it is predicted, and nothing is measured."""
    if explain.is_absent(context.target):
        answer.note(context, f"No GPU is here: nothing is measured for {context.target}, all figures are predicted.")
        explain.explain(context, answer)
        return
    bench = prepare(context, answer, Path(context.spec.model))
    try:
        _optimize(bench)
    finally:
        _outcomes(bench).remember(answer.evaluations)
        bench.close()


def _outcomes(bench: Bench) -> Outcomes:
    context, captured = bench.context, bench.captured
    return Outcomes(
        context.outcomes,
        captured.format,
        context.target,
        context.threads,
        captured.workload.mode.value,
        captured.inspection.operations,
    )


def _optimize(bench: Bench) -> None:
    context = bench.context
    settle_precisions(context, bench.answer, bench.workload)
    profile(bench)
    planner = planner_of(bench, honoured_settings(context, bench.answer.profile))
    builds = Builds(bench)
    try:
        expected = _outcomes(bench).expected()
        peers = most_promising_first(planner.peers(), expected, [])
        context.events.emit("compiling", f"Building {len(peers)} engines in the background, {builds.workers} at a time")
        # a core is left to what goes on meanwhile: matching the graph, computing the reference
        first = longest_first(peers)[-max(1, builds.workers - 1) :]  # the quickest: a look at a rewrite waits for it
        later = [one for one in peers if one not in first]
        builds.submit(first)
        find_rewrites(bench)
        planner.rewrites = bench.answer.rewrites
        find_causes(bench)
        rewritten = planner.first_rewritten()
        early = [*most_promising_first(rewritten, expected, bench.answer.findings), *first]
        # an early look waits for what was begun, so that no more is begun before it
        builds.submit(rewritten if first_comparison.has_room(context) else [*rewritten, *later])
        verifier = make_verifier(bench)
        with evaluator(bench, verifier, planner.facts.settings) as judge:
            _look_early(bench, builds, judge, early)
            by_layer = layer_plans.by_layer(bench, planner, verifier)
            every = [*early, *by_layer, *later, *planner.low_precision()]
            every = most_promising_first(every, expected, bench.answer.findings)
            _search(bench, planner, builds, judge, every)
    finally:
        builds.close()


def _search(bench: Bench, planner: Planner, builds: Builds, judge: Evaluator, first: list[Candidate]) -> None:
    answer, settings = bench.answer, planner.facts.settings
    rescue = Rescue(
        bench, planner, lambda some: _round(bench, builds, judge, some, keep=VARIANTS_SHARE), builds.workers
    )
    _round(bench, builds, judge, first)
    rescue.run(first)
    peers = [e for e in _passed(answer) if e.candidate.peer and precision_of(e.candidate) == "float32"]
    screened = {e.candidate.name: e.screened_speedup or 0.0 for e in peers}
    more = planner.more_rewritten(screened, _untimed(answer))
    _round(bench, builds, judge, more, keep=VARIANTS_SHARE)
    rescue.run(more)
    _round(bench, builds, judge, _other_options(bench), keep=VARIANTS_SHARE)
    slow = slow_peers(bench, builds, bench.context.deadline(_reserve(bench.context) + VARIANTS_SHARE))
    _round(bench, builds, judge, slow, keep=VARIANTS_SHARE)
    finals = _finals(bench, _leave_one_out(bench, planner, builds), settings)
    for dropped in planner.dropped:
        answer.file(not_tried(dropped.candidate, dropped.reason))
    for winner in finals.ranked:
        # a variant that leads has not been verified yet: nothing wrong is ever offered
        if winner.name not in answer.evaluations and judge.evaluate(winner).status != EvaluationStatus.PASSED:
            continue
        _file_screened(answer, winner, finals.screening.speedups[winner.name])
        if _judged_and_delivered(bench, planner, builds, winner, finals):
            return
    deliver.deliver(bench, deliver.Judged(None, next(iter(finals.peers), None), settings))


def _other_options(bench: Bench) -> list[Candidate]:
    """Of the best rewritten plan and the best engine by itself, while the run is young: each has to be built."""
    context = bench.context
    if context.events.elapsed_s() > YOUNG_SHARE * context.spec.policy.budget_s:
        return []
    every = [e.candidate for e in _passed(bench.answer) if backend_of(e.candidate) in OTHER_LIBRARY]
    leaders = [next((c for c in every if has_passes(c)), None), next((c for c in every if c.peer), None)]
    return option_variants([c for c in leaders if c is not None], bench.answer.profile)


def _look_early(bench: Bench, builds: Builds, judge: Evaluator, early: Sequence[Candidate]) -> None:
    """The first of `early` that is correct is compared with the original before the other engines are built, so that
    there is something to trust on the page. Nothing is built meanwhile: compiling disturbs measuring."""
    context = bench.context
    if not early or not first_comparison.has_room(context):
        return
    builds.submit(longest_first(early))
    builds.wait(early, context.deadline(_reserve(context)))
    for candidate in early:
        if not builds.ended(candidate):
            return
        if judge.evaluate(candidate).status == EvaluationStatus.PASSED:
            first_comparison.compare_first(bench, candidate, judge.settings)
            return


def _judged_and_delivered(bench: Bench, planner: Planner, builds: Builds, winner: Candidate, finals: Finals) -> bool:
    """False when the candidate failed in the judgement: it is filed as such, and the next one gets its chance."""
    context, answer, contender_s = bench.context, bench.answer, finals.screening.contender_s
    peer = finals.peer_of(winner)
    rounds = judging.rounds_for(finals.screening, winner, peer)
    winner, peer, as_it_was = settings_search.tune(
        bench,
        planner,
        builds,
        winner,
        peer,
        contender_s=contender_s,
        deadline=context.deadline(_reserve(context)),
    )
    beside = rivals.beside(answer, winner, peer) if context.spec.policy.rivals != "best" else as_it_was
    screening = finals.screening._replace(peers=rivals.most_judged(context.spec.policy, beside))
    asked = ablation.questions(bench, planner, builds, winner, finals.variants, screening)
    profile_s = winner_profile.reserve_s(bench, winner)
    deadline = context.deadline(0.0) - ablation.reserve_s(asked, winner, contender_s) - profile_s
    try:
        outcome = deliver.judged(bench, winner, peer, deadline=deadline, beside=beside, rounds=rounds)
    except FuseworksError as error:
        if error.id in NOT_THE_CANDIDATES:
            raise
        answer.file(failed(winner, error))
        finals.peers[:] = [one for one in finals.peers if one.name != winner.name]
        context.events.emit("benchmarking", f"{winner.name} failed while it was judged: {error.message}")
        return False
    deliver.deliver(bench, outcome)
    if asked and outcome.winner is winner:
        try:
            with context.events.stage("benchmarking", "Measuring what each step of the winner gives by itself"):
                answer.ablation = ablation.ablate(
                    bench, winner, asked, contender_s=contender_s, deadline=context.deadline(0.0), spare_s=profile_s
                )
        except FuseworksError as error:
            answer.note(context, f"The steps could not be measured one by one: {error.message}")
    if outcome.winner is not None:
        winner_profile.profile_winner(bench, outcome.winner)
    return True


def _round(
    bench: Bench, builds: Builds, judge: Evaluator, candidates: Sequence[Candidate], *, keep: float = 0.0
) -> None:
    """Built side by side ahead of time, then verified and screened one after another: compiling disturbs measuring.

    `keep`: the share of the budget that is left to the rest of the search.
    """
    context = bench.context
    candidates = _without_repeats(candidates)
    reserve = _reserve(context) + keep
    builds.submit(longest_first(candidates))
    builds.wait(candidates, context.deadline(reserve))
    for candidate in candidates:
        known = bench.answer.evaluations.get(candidate.name)
        if known is not None and known.status != EvaluationStatus.NOT_TRIED:
            continue
        if not builds.ended(candidate):
            bench.answer.file(not_tried(candidate, "the time budget was over before it was built"))
        elif context.remaining_s() < reserve * context.spec.policy.budget_s and _passed(bench.answer):
            bench.answer.file(not_tried(candidate, "the rest of the time budget is kept for judging the leader"))
        else:
            judge.evaluate(candidate)


def _reserve(context: RunContext) -> float:
    """The share of the budget that is left when the search ends."""
    policy = context.spec.policy
    rivals_share = RIVALS_SHARE if policy.rivals != "best" else 0.0
    return JUDGING_SHARE + rivals_share + (ABLATION_SHARE if policy.ablation else 0.0)


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


def _untimed(answer: Answer) -> dict[str, str]:
    """By name, why candidates say nothing of their speed though none of them was found wrong."""
    out_of_time = {EvaluationStatus.NOT_TRIED, EvaluationStatus.TIMED_OUT}
    return {e.candidate.name: e.reason or "" for e in answer.evaluations.values() if e.status in out_of_time}


def _leave_one_out(bench: Bench, planner: Planner, builds: Builds) -> list[LeftOut]:
    """The best rewritten candidate without each rewrite in turn, built side by side: those that could be built.

    The tidying passes are exact, and only the ablation asks what they give: the graph without them is built when a
    worker would be idle anyway.
    """
    context = bench.context
    rewritten = [e.candidate for e in _passed(bench.answer) if has_passes(e.candidate)]
    if not rewritten:
        return []
    leader = rewritten[0]
    left_out = planner.leave_one_out(leader)
    wanted = [one for one in left_out if not tidying(one.steps)]
    if len(wanted) < 2:
        return []  # without its only rewrite that does anything, the leader is the engine alone: a peer
    idle = -len(wanted) % builds.workers if context.spec.policy.ablation else 0
    candidates = [one.without for one in (*wanted, *[one for one in left_out if tidying(one.steps)][:idle])]
    with context.events.stage("compiling", f"Building {leader.name} without each of its rewrites in turn"):
        builds.submit(candidates)
        builds.wait(candidates, context.deadline(_reserve(context)))
    for one in wanted:
        if not bench.shop.is_built(one.without):
            reason = bench.shop.why_not(one.without) or "the time budget was over before it was built"
            bench.answer.file(not_tried(one.without, reason))
    return [one for one in left_out if bench.shop.is_built(one.without)]


def _finals(bench: Bench, left_out: list[LeftOut], settings: RuntimeSettings) -> Finals:
    """Ranks winners and chooses the best peer from one interleaved set of fresh processes, which judges nothing."""
    passed = _passed(bench.answer)
    if not passed:
        return Finals([], [], left_out, judging.FinalScreening({}, {}, 0.0))
    best = passed[0].screened_speedup or 1.0
    every_peer = [e.candidate for e in passed if e.candidate.peer]
    precisions = dict.fromkeys(precision_of(c) for c in every_peer)
    peers = [c for p in precisions for c in [c for c in every_peer if precision_of(c) == p][:PEER_FINALISTS]]
    leaders = {one.whole.name for one in left_out}  # beside its variants, so that these can be told apart from it
    ours = [
        e.candidate
        for e in passed
        if not e.candidate.peer and (e.candidate.name in leaders or (e.screened_speedup or 0.0) >= NEAR * best)
    ]
    variants = [one.without for one in left_out if not tidying(one.steps)]
    finalists = [*ours[:FINALISTS], *variants, *peers]
    with bench.context.events.stage("benchmarking", "Choosing among the finalists, interleaved in fresh processes"):
        screening = judging.final_screening(bench, finalists, settings)
    speedups = screening.speedups
    bench.answer.finalists = [Finalist(candidate=c, speedup=speedups[c.name]) for c in finalists if c.name in speedups]
    for name, speedup in speedups.items():
        bench.context.events.emit(
            "benchmarking", f"{name}: {speedup:.2f}x among the finalists", candidate=name, speedup=speedup
        )
    for candidate in finalists:
        if candidate.name in screening.failures:
            bench.answer.file(failed(candidate, screening.failures[candidate.name]))
        elif candidate.name in bench.answer.evaluations:
            _file_screened(bench.answer, candidate, speedups[candidate.name])
    ranked = sorted((c for c in finalists if c.name in speedups), key=lambda c: -speedups[c.name])
    for candidate in variants:
        if candidate in ranked[1:]:
            share = speedups[candidate.name] / speedups[ranked[0].name]
            bench.context.events.emit(
                "log", f"{candidate.name} reaches {share:.0%} of the leader's speed and is not pursued"
            )
    return Finals(ranked, [c for c in ranked if c.peer], left_out, screening)


def _file_screened(answer: Answer, candidate: Candidate, speedup: float) -> None:
    """Interleaved with all finalists, this is the better of the two screenings."""
    known = answer.evaluations[candidate.name]
    answer.file(known.model_copy(update={"screened_speedup": speedup}))
