"""The peers in a judgement: who takes part, which of them is the best there, and what the judgement says of each.

Unless the policy's `rivals` is `best`, every peer that passed and is no less precise than the winner is
judged along, and the best peer is the one that is fastest in the judgement. It is chosen by the very samples that then
tell its figures, so that these are a selection's; `judged_peers` of the answer has the honest quantity, the ratio over
each. Under `all_as_run` each has a second contender, in default settings: only the winner's ratio over that is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from optimizer.benchmarking.judge import MIN_SETS, JudgeOutcome, planned_looks
from optimizer.benchmarking.sets import round_log_speedups
from optimizer.benchmarking.statistics import look_confidence, student_interval, verdict
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.evaluate import failed
from optimizer.coordinator.judging import AS_RUN, BASELINE, DEPLOYED, PEER, WINNER
from optimizer.coordinator.prepare import Bench
from optimizer.optimizing.planner import no_less_precise, precision_of, same_steps
from optimizer.result import (
    Candidate,
    Comparison,
    Evaluation,
    EvaluationStatus,
    Interval,
    JudgedPeer,
    OutputNumerics,
    Performance,
    Verdict,
)
from optimizer.spec import Policy, Precision


def beside(answer: Answer, winner: Candidate, favourite: Candidate | None) -> list[Candidate]:
    """All peers that are judged beside the `favourite`: those that passed and are no less precise than the winner."""
    precise = no_less_precise(winner)
    known = [] if favourite is None else [favourite]
    return [
        e.candidate
        for e in answer.evaluations.values()
        if e.candidate.peer
        and e.status == EvaluationStatus.PASSED
        and precision_of(e.candidate) in precise
        and not any(same_steps(e.candidate, other) for other in [winner, *known])
    ]


def most_judged(policy: Policy, beside: Sequence[Candidate]) -> int:
    """How many contenders the peers of a judgement are, at most."""
    return (1 + len(beside)) * (2 if policy.rivals == "all_as_run" else 1)


def standing(bench: Bench, outcome: JudgeOutcome, peers: Mapping[str, Candidate]) -> dict[str, Candidate]:
    """The `peers` that did not fail. One that did is filed and told, and its second contender says nothing either."""
    kept = dict(peers)
    for role, peer in peers.items():
        if role in outcome.failed:
            kept.pop(role)
            bench.answer.file(failed(peer, outcome.failed[role]))
            text = f"{peer.name}, {'the best peer' if role == PEER else 'a peer'}, failed while it was judged and is "
            bench.answer.note(bench.context, text + "not compared.")
            second = role + AS_RUN
            outcome.samples.pop(second, None)
            outcome.comparisons = [c for c in outcome.comparisons if second not in (c.base, c.other)]
        elif role + AS_RUN in outcome.failed:
            text = f"{peer.name} failed in default settings: {outcome.failed[role + AS_RUN].message}"
            bench.answer.note(bench.context, text)
    return kept


def best_first(
    outcome: JudgeOutcome, winner: Candidate, peers: Mapping[str, Candidate]
) -> tuple[JudgeOutcome, Candidate | None, dict[str, Candidate]]:
    """The outcome with the fastest of the judged `peers` as the best peer; that peer; and the others by their names.

    No peer is the best one where the winner is a peer itself and none of the others is faster.
    """
    speedups = {role: c.speedup for role in peers if (c := outcome.comparison(BASELINE, role)) is not None}
    mine = outcome.comparison(BASELINE, WINNER)
    if winner.peer and mine is not None and len(peers) > (PEER in peers):
        speedups = {role: speedup for role, speedup in speedups.items() if speedup > mine.speedup}
    best = max(speedups, key=lambda role: speedups[role], default=None)
    places = {role: PEER if role == best else peer.name for role, peer in peers.items()}
    others = {peer.name: peer for role, peer in peers.items() if role != best}
    every = {**peers, **({WINNER: winner} if winner.peer else {})}
    places |= {role + AS_RUN: peer.name + AS_RUN for role, peer in every.items()}
    return renamed(outcome, places), None if best is None else peers[best], others


def judged_peers(
    outcome: JudgeOutcome,
    peers: Mapping[str, Candidate],
    performances: Mapping[str, Performance],
    evaluations: Mapping[str, Evaluation],
    *,
    winner: str,
    max_pairs: int,
) -> list[JudgedPeer]:
    """Fastest first. `peers` by the role that they have in `outcome`, the winner among them where it is one."""
    rows = []
    for role, peer in peers.items():
        over_baseline = outcome.comparison(BASELINE, role)
        if over_baseline is None:
            continue
        over = None if role == WINNER else _against(outcome, role, BASELINE, max_pairs)
        as_run = _against(outcome, peer.name + AS_RUN, DEPLOYED, max_pairs)
        worst = _worst(evaluations[peer.name]) if peer.name in evaluations else None
        rows.append(
            JudgedPeer(
                name=peer.name,
                precision=cast(Precision, precision_of(peer)),
                best_ms=performances[role].median_ms,
                speedup=over_baseline.speedup,
                interval=over_baseline.interval,
                winner_speedup=None if over is None else over.speedup,
                winner_interval=None if over is None else over.interval,
                winner_verdict=None if over is None else over.verdict,
                as_run=as_run and compared_as(as_run, {WINNER: winner}),
                error=None if worst is None else worst.error,
                allowed=None if worst is None else worst.allowed,
            )
        )
    return sorted(rows, key=lambda row: -row.speedup)


def _against(outcome: JudgeOutcome, peer: str, via: str, max_pairs: int) -> Comparison | None:
    """How fast the winner is against a peer. Where that was not asked (the winner took another's place), it is told
    from the same sets. `via`: the contender that both were compared with, whose conditions the answer takes over."""
    asked = outcome.comparison(peer, WINNER)
    mine, theirs = outcome.comparison(via, WINNER), outcome.comparison(via, peer)
    if asked is not None or mine is None or theirs is None:
        return asked
    pairs = zip(outcome.samples[peer], outcome.samples[WINNER], strict=True)
    logs = [float(np.median(round_log_speedups(base, other))) for base, other in pairs]
    confidence = mine.interval.confidence
    low, speedup, high = student_interval(logs, look_confidence(confidence, len(planned_looks(max_pairs))))
    few = len(logs) < MIN_SETS
    return Comparison(
        base=peer,
        other=WINNER,
        speedup=speedup,
        interval=Interval(low=low, high=high, confidence=confidence),
        verdict=Verdict.CANNOT_TELL if few else verdict(low, high, mine.noise_floor),
        noise_floor=mine.noise_floor,
        pairs=len(logs),
        looks=mine.looks,
        same_settings=mine.same_settings,
        reason=mine.reason,
        log_speedups=logs,
    )


def _worst(evaluation: Evaluation) -> OutputNumerics | None:
    outputs: Sequence[OutputNumerics] = evaluation.verification.outputs if evaluation.verification else []
    return max(outputs, key=lambda one: one.error / one.allowed if one.allowed > 0 else one.error, default=None)


def why_the_peer(outcome: JudgeOutcome, *, simplest: bool) -> str | None:
    """In what relation to the best peer the winner gives way to it, or None.

    Never lose to an engine that a user could pick, and offer no rewrite that gives nothing beyond it. But an engine
    that is not faster than the original by itself does not take the place of a winner that is.
    """
    against = outcome.comparison(PEER, WINNER)
    if against is None:
        return None
    if against.verdict == Verdict.SLOWER:
        return "slower than"
    mine, theirs = outcome.comparison(BASELINE, WINNER), outcome.comparison(BASELINE, PEER)
    loses = mine is not None and mine.verdict == Verdict.FASTER and (theirs is None or theirs.verdict != mine.verdict)
    if not simplest or loses:
        return None
    if against.verdict == Verdict.SAME:
        return "no faster than"
    # what cannot be told is no gain; where it points the other way, the engine by itself is what to deploy
    return "not found faster than" if against.verdict == Verdict.CANNOT_TELL and against.speedup <= 1 else None


def peer_as_winner(outcome: JudgeOutcome, former: str) -> JudgeOutcome:
    """The same sets, with the best peer in the winner's place. The `former` winner's comparisons and samples all stay,
    under its own name."""
    return renamed(outcome, {PEER: WINNER, WINNER: former})


def renamed(outcome: JudgeOutcome, places: Mapping[str, str]) -> JudgeOutcome:
    return replace(
        outcome,
        comparisons=[compared_as(c, places) for c in outcome.comparisons],
        samples={places.get(role, role): entrants for role, entrants in outcome.samples.items()},
    )


def compared_as(comparison: Comparison, names: Mapping[str, str]) -> Comparison:
    update = {
        "base": names.get(comparison.base, comparison.base),
        "other": names.get(comparison.other, comparison.other),
    }
    return comparison.model_copy(update=update)
