"""The finalists in one set of fresh processes, and the judgement of the winner in many."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from optimizer import inputs
from optimizer.benchmarking.bursts import Draw, Entrant
from optimizer.benchmarking.judge import LOOKS, MIN_SETS, JudgeOutcome, Pair, judge, planned_looks
from optimizer.benchmarking.sets import ROUNDS, Check, MeasuredSet, measure_set
from optimizer.benchmarking.summary import held_back, peak_memory_bytes, performance, recheck
from optimizer.coordinator.context import RunContext
from optimizer.coordinator.limits import check_memory
from optimizer.coordinator.prepare import Bench, drawing
from optimizer.coordinator.workshop import Loaded, Plan
from optimizer.errors import FuseworksError
from optimizer.result import Candidate, Performance
from optimizer.spec import RuntimeSettings

FINAL_ROUNDS = CLEAR_ROUNDS = 9
CLEAR = 1.25  # ahead of baseline and best peer by so much among the finalists, few rounds tell as much
ROUNDS_SHARE = 0.4  # of a set's seconds that its rounds take; starting and warming up take the others
TIED, MOST_TIED = 0.03, 4  # of the logarithm: what one process and the next of a contender may differ by
# How far past the budget a judgement may go for its first six sets: in shares of it, and at least in seconds. A run
# without a verdict is worth little, and a short budget is soon over.
OVERRUN_SHARE, OVERRUN_S = 0.5, 120.0
MOST_BESIDE = 4  # the peers, at most: winner, baseline, baseline in default settings, baseline once more
CACHE_BANDWIDTH_FACTOR = 10
BASELINE, WINNER, PEER, DEPLOYED = "baseline", "winner", "best_peer", "baseline_default"
AS_RUN = " (default settings)"  # a peer's second contender has this after its name


class FinalScreening(NamedTuple):
    """Speedups over the baseline by name, the failures of others, and what a contender costs in a set of `ROUNDS`.
    `peers`: how many will be judged beside the winner."""

    speedups: dict[str, float]
    failures: dict[str, FuseworksError]
    contender_s: float
    peers: int = 1


def starter(bench: Bench, candidate: Candidate, settings: RuntimeSettings | None = None) -> Callable[[], Loaded]:
    """Starts a fresh process of a candidate, under its own settings unless others are given."""
    built = bench.shop.build(candidate)
    chosen = Plan.of(candidate).settings if settings is None else settings
    return lambda: bench.shop.load(built, chosen)


def check_of(bench: Bench, candidate: Candidate) -> Check:
    assert bench.verifier is not None
    return bench.verifier.agreement(Plan.of(candidate).precision_name)


def final_screening(bench: Bench, candidates: Sequence[Candidate], settings: RuntimeSettings) -> FinalScreening:
    """All finalists interleaved in one set of fresh processes; those that it does not tell apart from the leader, and
    from the leading peer, once more in another set."""
    draw, rng = drawing(bench, 5), bench.context.rng(6)
    measured = _one_set(bench, candidates, settings, draw, rng)
    logs = {c.name: measured.log_speedup(BASELINE, c.name) for c in candidates if c.name in measured.entrants}
    more_rounds = 1 + ROUNDS_SHARE * (ROUNDS / FINAL_ROUNDS - 1)
    contender_s = measured.seconds / (1 + len(candidates)) * more_rounds
    tied = _tied([c for c in candidates if c.name in logs], logs)
    failed = dict(measured.failed)
    if tied:
        again = _one_set(bench, tied, settings, draw, rng)
        failed.update(again.failed)
        for name in again.failed:
            logs.pop(name)
        for one in tied:
            if one.name in again.entrants:
                logs[one.name] = (logs[one.name] + again.log_speedup(BASELINE, one.name)) / 2
    return FinalScreening({name: float(np.exp(log)) for name, log in logs.items()}, failed, contender_s)


def _one_set(
    bench: Bench, candidates: Sequence[Candidate], settings: RuntimeSettings, draw: Draw, rng: np.random.Generator
) -> MeasuredSet:
    starts: dict[str, Any] = {c.name: starter(bench, c) for c in candidates}
    starts[BASELINE] = starter(bench, bench.baseline(settings))
    return measure_set(
        starts,
        draw,
        baseline=BASELINE,
        rng=rng,
        rounds=FINAL_ROUNDS,
        checks={c.name: check_of(bench, c) for c in candidates},
    )


def _tied(candidates: Sequence[Candidate], logs: Mapping[str, float]) -> list[Candidate]:
    """The leaders of all, and of the peers, that lie too near to each other for one process of each to tell."""
    found: list[Candidate] = []
    for group in (candidates, [c for c in candidates if c.peer]):
        ranked = sorted(group, key=lambda c: -logs[c.name])[:MOST_TIED]
        near = [c for c in ranked if logs[ranked[0].name] - logs[c.name] <= TIED]
        found += [c for c in near if len(near) > 1 and c not in found]
    return found


def rounds_for(screening: FinalScreening, winner: Candidate, peer: Candidate | None) -> int:
    """Of each set of the judgement, fixed before it by what the finalists showed. More rounds narrow what is near."""
    over_baseline = screening.speedups.get(winner.name, 1.0)
    over_peer = over_baseline / screening.speedups.get(peer.name, over_baseline) if peer else over_baseline
    return CLEAR_ROUNDS if min(over_baseline, over_peer) >= CLEAR else ROUNDS


def least_s(contender_s: float, peers: int = 1) -> float:
    """What the shortest judgement takes that may give a verdict."""
    return MIN_SETS * (MOST_BESIDE + max(1, peers)) * contender_s


def last_deadline(context: RunContext) -> float:
    """Beyond which not even a verdict is waited for."""
    return context.deadline(-max(OVERRUN_SHARE, OVERRUN_S / context.spec.policy.budget_s))


def judge_winner(
    bench: Bench,
    winner: Candidate,
    peer: Candidate | None,
    settings: RuntimeSettings,
    deadline: float,
    rivals: Sequence[Candidate] = (),
    rounds: int = ROUNDS,
) -> JudgeOutcome:
    """Winner, best peer and baseline under `settings`, and the baseline in default settings when those differ.

    `rivals`: more peers, under their own names. How fast one of them is against the baseline holds nothing up, nor
    what it is in default settings, where the policy asks for that.
    """
    context = bench.context
    pairs = [Pair(BASELINE, WINNER)]
    starts: dict[str, Any] = {
        WINNER: starter(bench, winner),
        BASELINE: starter(bench, bench.baseline(settings)),
    }
    checks = {WINNER: check_of(bench, winner)}
    peers = {**({} if peer is None else {PEER: peer}), **{one.name: one for one in rivals}}
    for role, one in peers.items():
        starts[role] = starter(bench, one)
        checks[role] = check_of(bench, one)
        alike = Plan.of(one).settings == settings
        # how fast the peer is by itself decides nothing once it has lost to the winner
        pairs += [Pair(role, WINNER, alike), Pair(BASELINE, role, alike, role == PEER, moot=(role, WINNER))]
    if settings != RuntimeSettings():
        starts[DEPLOYED] = starter(bench, bench.baseline(RuntimeSettings()))
        pairs.append(Pair(DEPLOYED, WINNER, same_settings=False))
        pairs += [Pair(DEPLOYED, role, False, role == PEER, moot=(role, WINNER)) for role in peers]
        if context.spec.policy.rivals == "all_as_run":
            for role, one in {**peers, **({WINNER: winner} if winner.peer else {})}.items():
                starts[role + AS_RUN] = starter(bench, one, RuntimeSettings())
                checks[role + AS_RUN] = check_of(bench, one)
                pairs.append(Pair(role + AS_RUN, WINNER, same_settings=False, awaited=False))
                pairs.append(Pair(DEPLOYED, role + AS_RUN, awaited=False))
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
            rounds=rounds,
            deadline=deadline,
            untold_deadline=context.deadline(0.0),  # no step's share is worth more than the verdict
            last_deadline=last_deadline(context),
            checks=checks,
            reference=bench.reference,
            essential={WINNER},
            progress=progress,
        )
        check_memory(bench.workload, winner.name, peak_memory_bytes(outcome.samples[WINNER]))
        _believe(bench, outcome, WINNER, starts, checks)
        for role in peers:
            if outcome.comparison(BASELINE, role) is not None:
                _believe_peer(bench, outcome, starts, checks, role)
    finally:
        if bench.reference is not None:
            bench.reference.pause()
    return outcome


def _believe_peer(
    bench: Bench, outcome: JudgeOutcome, starts: Mapping[str, Any], checks: Mapping[str, Check], role: str = PEER
) -> None:
    """Its figures are told too, and it may take the winner's place. It drops out when they do not hold."""
    try:
        name = "the best peer" if role == PEER else role
        check_memory(bench.workload, name, peak_memory_bytes(outcome.samples[role]))
        _believe(bench, outcome, role, starts, checks)
    except FuseworksError as error:
        if error.side == "ours":
            raise
        outcome.failed[role] = error
        outcome.samples.pop(role)
        outcome.comparisons = [c for c in outcome.comparisons if role not in (c.base, c.other)]


def _believe(
    bench: Bench, outcome: JudgeOutcome, role: str, starts: Mapping[str, Any], checks: Mapping[str, Check]
) -> None:
    """What is too good is measured again with every answer compared; it must hold."""
    comparison = outcome.comparison(BASELINE, role)
    assert comparison is not None
    best_ms = summary(bench, outcome.samples[role]).median_ms
    roofline_ms = roofline_bound_ms(bench)
    reason = held_back(comparison.speedup, best_ms, roofline_ms)
    if reason is None:
        return
    bench.context.events.emit("benchmarking", f"Held back and measured again: {reason}")
    rejected = recheck(
        starts,
        BASELINE,
        role,
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
