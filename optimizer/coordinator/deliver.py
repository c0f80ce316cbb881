"""From measurements to the answer: the judgement filed, the recipe, the package and what the summary says."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from optimizer import inputs, machine, runtime_settings
from optimizer.benchmarking.judge import JudgeOutcome
from optimizer.benchmarking.summary import raw_samples
from optimizer.coordinator.evaluate import failed
from optimizer.coordinator.judging import BASELINE, DEPLOYED, PEER, WINNER, judge_winner, summary
from optimizer.coordinator.prepare import Bench, conditions
from optimizer.coordinator.workshop import Loaded, Plan
from optimizer.errors import FuseworksError
from optimizer.optimizing.planner import same_steps
from optimizer.packaging.package import Sample, write_package
from optimizer.recipe import Accept, Machine, Recipe, as_document, digest, dump, recipe_from_candidate
from optimizer.result import (
    Artifact,
    BestPeer,
    Candidate,
    Comparison,
    Evaluation,
    EvaluationStatus,
    Performance,
    Verdict,
)
from optimizer.spec import RuntimeSettings
from optimizer.verifying.asking import ask


@dataclass
class Judged:
    """What the judgement left. `winner` is None when nothing passed."""

    winner: Candidate | None
    peer: Candidate | None
    settings: RuntimeSettings
    noise_floor: float = 0.0
    notes: list[str] = field(default_factory=list)
    load_averages: list[float] = field(default_factory=list)


def judged(bench: Bench, winner: Candidate, peer: Candidate | None, *, deadline: float) -> Judged:
    """Judges the winner in fresh processes and files everything with the answer. Raises FuseworksError."""
    settings = Plan.of(winner).settings
    with bench.context.events.stage("benchmarking", f"Judging {winner.name} in fresh processes", winner.name):
        rival = None if peer is None or same_steps(peer, winner) else peer
        outcome = judge_winner(bench, winner, rival, settings, deadline)
        if rival is not None and PEER in outcome.failed:
            bench.answer.file(failed(rival, outcome.failed[PEER]))
            bench.answer.note(
                bench.context, f"{rival.name}, the best peer, failed while it was judged and is not compared."
            )
            rival = None
        against = outcome.comparison(PEER, WINNER)
        if rival is not None and against is not None and against.verdict == Verdict.SLOWER:
            # never lose to an engine that a user could pick: she is offered that engine instead
            text = f"{winner.name} was judged slower than {rival.name}, which is offered instead, on the same samples."
            bench.answer.note(bench.context, text)
            winner, rival, outcome = rival, None, _peer_as_winner(outcome)
    _file(bench, winner, rival or winner, rival is not None, outcome)
    return Judged(winner, peer, settings, outcome.noise_floor, outcome.notes, outcome.load_averages)


def _peer_as_winner(outcome: JudgeOutcome) -> JudgeOutcome:
    """The same sets, with the best peer in the winner's place."""
    asked = {(BASELINE, PEER), (DEPLOYED, PEER)}
    comparisons = [c.model_copy(update={"other": WINNER}) for c in outcome.comparisons if (c.base, c.other) in asked]
    samples = {**outcome.samples, WINNER: outcome.samples[PEER]}
    samples.pop(PEER)
    return replace(outcome, comparisons=comparisons, samples=samples)


def _file(bench: Bench, winner: Candidate, peer: Candidate, peer_measured: bool, outcome: JudgeOutcome) -> None:
    answer = bench.answer
    names = {WINNER: winner.name, PEER: peer.name, BASELINE: "baseline", DEPLOYED: "baseline (default settings)"}
    answer.comparisons = [_renamed(c, names) for c in outcome.comparisons]
    by_pair = {(c.base, c.other): _renamed(c, names) for c in outcome.comparisons}
    answer.same_settings = by_pair[BASELINE, WINNER]
    answer.as_deployed = by_pair.get((DEPLOYED, WINNER)) or (
        answer.same_settings if Plan.of(winner).settings == RuntimeSettings() else None
    )
    answer.over_best_peer = by_pair.get((PEER, WINNER))
    performances = {role: summary(bench, entrants) for role, entrants in outcome.samples.items()}
    answer.winner = winner.name
    answer.baseline_ms = performances[BASELINE].median_ms
    answer.best_ms = performances[WINNER].median_ms
    best_peer = by_pair.get((BASELINE, PEER)) if peer_measured else (answer.same_settings if winner.peer else None)
    if best_peer is not None:
        role = PEER if peer_measured else WINNER
        answer.best_peer = BestPeer(
            name=peer.name, speedup=best_peer.speedup, interval=best_peer.interval, best_ms=performances[role].median_ms
        )
    baseline = bench.baseline(Plan.of(winner).settings)
    answer.file(Evaluation(candidate=baseline, status=EvaluationStatus.PASSED, performance=performances[BASELINE]))
    if DEPLOYED in performances:
        deployed = bench.baseline(RuntimeSettings()).model_copy(update={"name": names[DEPLOYED]})
        answer.file(Evaluation(candidate=deployed, status=EvaluationStatus.PASSED, performance=performances[DEPLOYED]))
    for role, candidate in ((WINNER, winner), (PEER, peer)):
        if role in performances and candidate.name in answer.evaluations:
            _measured(bench, candidate, performances[role])
    verification = answer.evaluations[winner.name].verification
    answer.numerics = verification.outputs if verification else []
    answer.samples = {names.get(role, role): raw_samples(entrants) for role, entrants in outcome.samples.items()}


def _renamed(comparison: Comparison, names: dict[str, str]) -> Comparison:
    update = {
        "base": names.get(comparison.base, comparison.base),
        "other": names.get(comparison.other, comparison.other),
    }
    return comparison.model_copy(update=update)


def _measured(bench: Bench, candidate: Candidate, performance: Performance) -> None:
    """The judged figures take the place of the screened ones."""
    evaluation = bench.answer.evaluations[candidate.name]
    screened = evaluation.performance
    kept = {"compile_s", "artifact_bytes", "inference_precision"}
    update = {name: getattr(screened, name) for name in kept} if screened else {}
    bench.answer.file(evaluation.model_copy(update={"performance": performance.model_copy(update=update)}))


# ---- recipe, package, words ----------------------------------------------------------------------------------------


def deliver(bench: Bench, judgement: Judged) -> None:
    """Recipe and package of a winner that is faster; and the summary in words, whatever came of it."""
    answer = bench.answer
    answer.conditions = conditions(bench.context, judgement.settings)
    answer.conditions.observed.update(
        noise_floor=judgement.noise_floor,
        notes=judgement.notes,
        load_averages=judgement.load_averages,
        clock_ns=_clock_ns(bench),
    )
    answer.summary = _in_words(bench)
    same = answer.same_settings
    if judgement.winner is None or same is None or same.verdict != Verdict.FASTER:
        return
    recipe = make_recipe(bench, judgement.winner)
    answer.recipe, answer.recipe_digest = as_document(recipe), digest(recipe)
    file = bench.context.out / "recipe.yaml"
    file.write_text(dump(recipe))
    answer.artifacts.append(artifact("recipe", file))
    try:
        answer.artifacts += package(bench, judgement.winner)
    except FuseworksError as error:
        answer.note(bench.context, f"The package could not be written: {error.message}")


def _clock_ns(bench: Bench) -> int | None:
    """What reading the clock once costs, at most, in any of the measured processes."""
    costs = [process["clock_ns"] for processes in bench.answer.samples.values() for process in processes]
    return max(costs, default=None)


def make_recipe(bench: Bench, winner: Candidate) -> Recipe:
    plan = Plan.of(winner)
    rewrites = bench.shop.rewrite(plan.passes).rewrites
    name = re.sub(r"[^a-z0-9]+", "-", f"{bench.captured.upload.stem} {winner.name}".lower()).strip("-")
    same = bench.answer.same_settings
    assert same is not None
    done = [r.pass_ for r in rewrites if r.applied]
    return recipe_from_candidate(
        winner.steps,
        rewrites,
        Machine(target=bench.context.target, isa=machine.cpu_isa(), libraries=machine.library_versions()),
        name=name,
        title=f"{plan.backend.backend} with {', '.join(done)}" if done else plan.backend.backend,
        summary=f"{same.speedup:.2f}x [{same.interval.low:.2f}, {same.interval.high:.2f}] where it was found.",
        mode=bench.workload.mode,
        accept=Accept(max_error_ratio=bench.context.spec.policy.max_error_ratio),
    )


def package(bench: Bench, winner: Candidate) -> list[Artifact]:
    """Writes the package with a verified call in it, which `run.py --self-test` repeats."""
    plan = Plan.of(winner)
    built = bench.shop.build(winner)
    arrays = inputs.draw(bench.workload, bench.workload.sizes(), bench.context.rng(14))
    loaded = bench.shop.load(built, plan.settings, name="package")
    with loaded.child as child:
        (outputs,) = ask(child, [arrays], timeout_s=120.0).whole()
    _verified(bench, winner, arrays, outputs)
    same = bench.answer.same_settings
    assert same is not None
    threads = bench.context.threads_of(plan.settings)
    return write_package(
        bench.context.out,
        name=bench.captured.upload.stem,
        backend=plan.backend.backend,
        options=plan.backend.options,
        steps=winner.steps,
        artifact_folder=built.folder,
        model=built.model,
        workload=bench.workload,
        outputs=bench.captured.inspection.outputs,
        libraries=_libraries(loaded),
        environment=runtime_settings.environment(plan.settings, threads),
        threads=threads,
        target=bench.context.target,
        precision=plan.precision_name,
        details=built.details,
        model_sha256=bench.captured.inspection.sha256,
        recipe_digest=bench.answer.recipe_digest,
        speedup=bench.answer.summary,
        sample=Sample(arrays, outputs, max((row.allowed for row in bench.answer.numerics), default=1e-4)),
    )


def _verified(bench: Bench, winner: Candidate, arrays: list[np.ndarray], outputs: list[np.ndarray]) -> None:
    """The call that the package repeats is checked against the float64 reference like any other."""
    assert bench.reference is not None and bench.verifier is not None
    bench.reference.resume()
    try:
        (true,) = ask(bench.reference, [arrays], timeout_s=120.0).whole()
    finally:
        bench.reference.pause()
    alike = [
        t.astype(o.dtype) if t.dtype.kind == o.dtype.kind == "f" else t for t, o in zip(true, outputs, strict=True)
    ]
    reason = bench.verifier.agreement(Plan.of(winner).precision_name)(outputs, alike)
    if reason is not None:
        raise FuseworksError("benchmarking:user:answers-changed", place=winner.name, name=winner.name, text=reason)


def _libraries(loaded: Loaded) -> dict[str, str]:
    return {**machine.library_versions(("numpy",)), **loaded.libraries}


def artifact(name: str, path: Path) -> Artifact:
    import hashlib

    data = path.read_bytes()
    return Artifact(name=name, path=path.name, size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def _in_words(bench: Bench) -> str:
    answer = bench.answer
    same = answer.same_settings
    if same is None:
        return "No faster recipe found: no candidate passed verification. The list says why each was dropped."
    text = f"{same.speedup:.2f}x [{same.interval.low:.2f}, {same.interval.high:.2f}] under equal settings"
    if answer.as_deployed is not None and answer.as_deployed is not same:
        deployed = answer.as_deployed
        text += f", {deployed.speedup:.2f}x [{deployed.interval.low:.2f}, {deployed.interval.high:.2f}] as deployed"
    words: dict[Verdict, str] = {
        Verdict.FASTER: f"Faster: {text}",
        Verdict.SAME: f"No faster recipe found: the best candidate is as fast as the baseline ({text})",
        Verdict.SLOWER: f"No faster recipe found: the best candidate is slower than the baseline ({text})",
        Verdict.CANNOT_TELL: f"No faster recipe found that holds: this machine's noise hides the difference ({text})",
    }
    peer: Any = answer.best_peer
    over = answer.over_best_peer
    tail = ""
    if over is not None and peer is not None:
        told = {Verdict.FASTER: "faster than", Verdict.SAME: "as fast as", Verdict.SLOWER: "slower than"}
        relation = told.get(over.verdict, "not to be told apart from")
        figures = f"{over.speedup:.2f}x [{over.interval.low:.2f}, {over.interval.high:.2f}]"
        tail = f"; {relation} the best peer {peer.name} ({figures})"
    elif peer is not None and answer.winner == peer.name:
        tail = f"; the best engine by itself ({peer.name}) is what is offered: no rewrite beat it"
    return words[same.verdict] + tail + "."
