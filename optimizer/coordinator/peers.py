"""What the planner must know of a run, and a replay's best peer: the best engine that a user could pick instead.

The same engines as an optimize run tries without rewrites, in the precision of what they are held against, as many as
fit into the time that is not kept for the judgement. What is left out is named.
"""

from __future__ import annotations

from optimizer import machine
from optimizer.compiling.base import serving_sizes
from optimizer.compiling.precision import int8_refusal
from optimizer.compiling.precision import refusal as bfloat16_refusal
from optimizer.coordinator import judging
from optimizer.coordinator.builds import Builds, longest_first
from optimizer.coordinator.evaluate import Evaluator, failed, not_tried
from optimizer.coordinator.prepare import Bench, backends, profile, ready_toolchain
from optimizer.optimizing.cuda_graphs import launch_bound
from optimizer.optimizing.planner import Facts, Planner, precision_of, same_steps
from optimizer.optimizing.training_planner import TrainingPlanner
from optimizer.result import Candidate, EvaluationStatus
from optimizer.spec import Mode, RuntimeSettings

JUDGING_SHARE = 0.3  # of the budget: what the search keeps for the judgement, and what no peer of a replay is tried in
PEER_FINALISTS = 2
COMPILERS = frozenset({"inductor", "aot_inductor", "inductor_step", "torchao"})


def planner_of(bench: Bench, settings: RuntimeSettings) -> Planner:
    """Knows engines, machine, policy and profile; of rewrites nothing yet. Makes the compilers' cache ready."""
    context = bench.context
    engines = backends(context, bench.captured)
    if context.toolchain is None and any(engines.get(name, "") is None for name in COMPILERS):
        context.unhurried(ready_toolchain)
    kind = TrainingPlanner if bench.workload.mode is Mode.TRAINING else Planner
    return kind(
        Facts(
            format=bench.captured.format,
            baseline_backend=bench.captured.baseline_backend,
            backends=engines,
            settings=settings,
            policy=context.spec.policy,
            bfloat16_refusal=bfloat16_refusal(context.target, machine.cpu_isa()),
            int8_refusal=int8_refusal(context.target, machine.cpu_isa()),
            serve_sizes=len(serving_sizes(bench.workload)) if bench.workload.dims else 0,
            target=context.target,
            threads=context.threads,
            launch_bound=launch_bound(bench.answer.profile),
        )
    )


def best_peer(bench: Bench, candidate: Candidate, judge: Evaluator, settings: RuntimeSettings) -> Candidate | None:
    """None where no engine by itself is correct, or none was left to try. Raises only what ends the whole run."""
    if bench.answer.profile is None and bench.context.target != "cpu":
        profile(bench)  # whether recording kernels is worth a candidate, only the profile shows
    planner = planner_of(bench, settings)
    proposed = [*planner.peers(), *planner.low_precision()]
    alike = [c for c in proposed if precision_of(c) == precision_of(candidate) and not same_steps(c, candidate)]
    for dropped in planner.dropped:
        bench.answer.file(not_tried(dropped.candidate, dropped.reason))
    passed = _evaluated(bench, alike, judge)
    passed.sort(key=lambda peer: -(bench.answer.evaluations[peer.name].screened_speedup or 0.0))
    leaders = passed[:PEER_FINALISTS]
    if len(leaders) < 2:
        return leaders[0] if leaders else None
    with bench.context.events.stage("benchmarking", "Choosing the best peer, interleaved in fresh processes"):
        screening = judging.final_screening(bench, leaders, settings)
    for peer in leaders:
        if peer.name in screening.failures:
            bench.answer.file(failed(peer, screening.failures[peer.name]))
    left = [peer for peer in leaders if peer.name in screening.speedups]
    return max(left, key=lambda peer: screening.speedups[peer.name], default=None)


def _evaluated(bench: Bench, peers: list[Candidate], judge: Evaluator) -> list[Candidate]:
    """Those that passed. Built side by side ahead of time: compiling disturbs measuring."""
    context = bench.context
    builds = Builds(bench)
    try:
        builds.submit(longest_first(peers))
        builds.wait(peers, context.deadline(JUDGING_SHARE))
        passed = []
        for peer in peers:
            if not builds.ended(peer):
                bench.answer.file(not_tried(peer, "the time budget was over before it was built"))
            elif context.remaining_s() < JUDGING_SHARE * context.spec.policy.budget_s:
                bench.answer.file(not_tried(peer, "the rest of the time budget is kept for judging the recipe"))
            elif judge.evaluate(peer).status == EvaluationStatus.PASSED:
                passed.append(peer)
        return passed
    finally:
        builds.close()
