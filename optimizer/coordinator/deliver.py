"""From measurements to the answer: the judgement filed, the recipe, the package and what the summary says."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from optimizer import inputs, machine, runtime_settings
from optimizer.benchmarking.judge import JudgeOutcome
from optimizer.benchmarking.sets import ROUNDS
from optimizer.benchmarking.summary import disturbed_shares, raw_samples
from optimizer.coordinator import rivals, training_package
from optimizer.coordinator.judging import BASELINE, DEPLOYED, PEER, WINNER, judge_winner, summary
from optimizer.coordinator.limits import in_words, limit_checks
from optimizer.coordinator.prepare import Bench, conditions
from optimizer.coordinator.steps import steps_in_full
from optimizer.coordinator.workshop import Loaded, Plan
from optimizer.errors import FuseworksError
from optimizer.optimizing.planner import has_passes, same_steps, tidying
from optimizer.packaging.package import Sample, write_package
from optimizer.recipe import Accept, Machine, Recipe, as_document, digest, dump, recipe_from_candidate
from optimizer.result import (
    Artifact,
    BestPeer,
    Candidate,
    Evaluation,
    EvaluationStatus,
    Performance,
    Verdict,
)
from optimizer.spec import Mode, RuntimeSettings
from optimizer.verifying.asking import ask

SELF_TEST, SELF_TEST_S = ("run.py", "--self-test", "--calls", "5"), 120.0
MAX_TOLD_CHARS = 600


@dataclass
class Judged:
    """What the judgement left. `winner` is None when nothing passed."""

    winner: Candidate | None
    peer: Candidate | None
    settings: RuntimeSettings
    noise_floor: float = 0.0
    notes: list[str] = field(default_factory=list)
    load_averages: list[float] = field(default_factory=list)
    disturbed_shares: dict[str, float] = field(default_factory=dict)


def judged(
    bench: Bench,
    winner: Candidate,
    peer: Candidate | None,
    *,
    deadline: float,
    simplest: bool = True,
    beside: Sequence[Candidate] = (),
    rounds: int = ROUNDS,
) -> Judged:
    """Judges the winner in fresh processes and files everything with the answer.

    `simplest`: the best peer takes the winner's place where it is as fast, too, and not only where it is faster.
    `beside`: more peers to be judged; the best peer is then the fastest of all in the judgement. `rounds`: of a set.
    Raises FuseworksError.
    """
    settings = Plan.of(winner).settings
    with bench.context.events.stage("benchmarking", f"Judging {winner.name} in fresh processes", winner.name):
        peers = {} if peer is None or same_steps(peer, winner) else {PEER: peer}
        outcome = judge_winner(bench, winner, peers.get(PEER), settings, deadline, beside, rounds)
        peers.update({one.name: one for one in beside})
        peers = rivals.standing(bench, outcome, peers)
        outcome, rival, others = rivals.best_first(outcome, winner, peers)
        if beside and rival is not None:
            text = f"The best peer is the fastest of the {len(peers)} that were judged: it was chosen after measuring."
            bench.answer.note(bench.context, text)
        simplest = simplest and not (beside and winner.peer)
        relation = None if rival is None else rivals.why_the_peer(outcome, simplest=simplest)
        if rival is not None and relation is not None:
            text = f"{winner.name} was judged {relation} {rival.name}, which takes its place, on the same samples."
            bench.answer.note(bench.context, text)
            others[winner.name] = winner
            winner, rival, outcome = rival, None, rivals.peer_as_winner(outcome, winner.name)
    _file(bench, winner, rival or winner, rival is not None, outcome, others)
    return Judged(
        winner,
        peer,
        settings,
        outcome.noise_floor,
        outcome.notes,
        outcome.load_averages,
        disturbed_shares(outcome.samples),
    )


def _file(
    bench: Bench,
    winner: Candidate,
    peer: Candidate,
    peer_measured: bool,
    outcome: JudgeOutcome,
    others: Mapping[str, Candidate],
) -> None:
    """`others`: candidates that were measured along under their own names."""
    answer = bench.answer
    names = {WINNER: winner.name, PEER: peer.name, BASELINE: "baseline", DEPLOYED: "baseline (default settings)"}
    answer.comparisons = [rivals.compared_as(c, names) for c in outcome.comparisons]
    by_pair = {(c.base, c.other): rivals.compared_as(c, names) for c in outcome.comparisons}
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
    for role, candidate in ((WINNER, winner), (PEER, peer), *others.items()):
        if role in performances and candidate.name in answer.evaluations:
            _measured(bench, candidate, performances[role])
    measured = {WINNER: winner, **({PEER: peer} if peer_measured else {}), **others}
    answer.judged_peers = rivals.judged_peers(
        outcome,
        {role: one for role, one in measured.items() if one.peer},
        performances,
        answer.evaluations,
        winner=winner.name,
        max_pairs=bench.context.spec.policy.max_pairs,
    )
    verification = answer.evaluations[winner.name].verification
    answer.numerics = verification.outputs if verification else []
    answer.limits = limit_checks(bench.workload, performances[WINNER], performances[BASELINE], answer.numerics)
    answer.samples = {names.get(role, role): raw_samples(entrants) for role, entrants in outcome.samples.items()}


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
        disturbed_shares=judgement.disturbed_shares,
        clock_ns=_clock_ns(bench),
    )
    answer.summary = ("Of a training step: " if bench.workload.mode is Mode.TRAINING else "") + _in_words(bench)
    same = answer.same_settings
    if judgement.winner is None or same is None or same.verdict != Verdict.FASTER:
        return
    if answer.as_deployed is not None and answer.as_deployed.verdict == Verdict.SLOWER:
        answer.note(
            bench.context,
            f"No recipe and no package are offered: {judgement.winner.name} is faster under equal settings, but slower "
            "than the original in its default settings, which is what it would replace.",
        )
        return
    answer.offered = True
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


def recipe_name(plan: Plan, applied: Sequence[str]) -> str:
    """What it does, and not what the winner's name says that it leaves out. Never the model's name: a recipe that is
    published is read by those who may not know of the model."""
    telling = [step.pass_ for step in plan.passes if step.pass_ in applied and not tidying([step])]
    precision = [] if plan.precision is None else [plan.precision_name]
    return " ".join([plan.backend.backend, *precision, *telling])


def recipe_summary(plan: Plan, applied: Sequence[str]) -> str:
    """What the steps do. No figure that was measured: evidence is never in the document, and two runs that find the
    same steps must give the same digest."""
    graph = f"Rewrites the graph ({', '.join(applied)}), then runs" if applied else "Runs"
    precision = "" if plan.precision is None else f" in {plan.precision_name}"
    settings = [f"{key} {value}" for key, value in plan.settings.model_dump(exclude_defaults=True).items()]
    under = f", with the runtime settings {', '.join(settings)}" if settings else ""
    return f"{graph} it on {plan.backend.backend}{precision}{under}."


def make_recipe(bench: Bench, winner: Candidate) -> Recipe:
    plan = Plan.of(winner)
    rewrites = bench.shop.rewrite(plan.passes).rewrites
    done = [r.pass_ for r in rewrites if r.applied]
    return recipe_from_candidate(
        steps_in_full(winner.steps),
        rewrites,
        Machine(target=bench.context.target, isa=machine.cpu_isa(), libraries=machine.library_versions()),
        name=recipe_name(plan, done),
        title=f"{plan.backend.backend} with {', '.join(done)}" if done else plan.backend.backend,
        summary=recipe_summary(plan, done),
        mode=bench.workload.mode,
        accept=Accept(max_error_ratio=bench.context.spec.policy.max_error_ratio),
    )


def package(bench: Bench, winner: Candidate) -> list[Artifact]:
    """The package, once it has passed its own self-test; one that does not is withheld, and a note says why.

    Raises FuseworksError when it could not even be written.
    """
    training = bench.workload.mode is Mode.TRAINING
    artifacts = [artifact("package", training_package.write(bench, winner))] if training else _written(bench, winner)
    reason = _self_test(bench, training_package.SELF_TEST if training else SELF_TEST)
    if reason is None:
        return artifacts
    shutil.rmtree(bench.context.out / "package")
    (bench.context.out / "package.zip").unlink()
    bench.answer.note(bench.context, f"The package was withheld: its own self-test failed: {reason}")
    return []


def _self_test(bench: Bench, command: Sequence[str]) -> str | None:
    """Runs `command` as the user would, inside the sandbox. Why the package cannot be offered, or None."""
    context = bench.context
    with context.events.stage("verifying", "Running the package's own self-test"):
        try:
            with context.child("self-test", {"package": context.out / "package"}, on_device=True) as child:
                fields = child.call(
                    "packaging.self_test",
                    timeout_s=2 * SELF_TEST_S,
                    package=child.path("package"),
                    command=list(command),
                    limit_s=SELF_TEST_S,
                ).fields
        except FuseworksError as error:
            return error.message
    if fields.get("exit_code") == 0:
        return None
    return str(fields.get("told") or f"exit code {fields.get('exit_code')}")[-MAX_TOLD_CHARS:]


def _written(bench: Bench, winner: Candidate) -> list[Artifact]:
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
        denormals=plan.settings.denormals,
        target=bench.context.target,
        precision=plan.precision_name,
        details=built.details,
        model_sha256=bench.captured.inspection.sha256,
        recipe_digest=bench.answer.recipe_digest,
        speedup=bench.answer.summary,
        sample=Sample(arrays, outputs, [row.allowed for row in bench.answer.numerics if row.inputs == "drawn"]),
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
    reason = bench.verifier.agreement(Plan.of(winner).precision_name, timed=False)(outputs, alike)
    if reason is not None:
        raise FuseworksError("benchmarking:user:answers-changed", place=winner.name, name=winner.name, text=reason)


def _libraries(loaded: Loaded) -> dict[str, str]:
    return {**machine.library_versions(("numpy",)), **loaded.libraries}


def artifact(name: str, path: Path) -> Artifact:
    import hashlib

    data = path.read_bytes()
    return Artifact(name=name, path=path.name, size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def _rewrites_in_words(bench: Bench) -> str:
    """Whether any rewritten candidate was measured: one that was not has lost nothing."""
    rewritten = [e for e in bench.answer.evaluations.values() if not e.candidate.peer and has_passes(e.candidate)]
    if any(e.screened_speedup is not None or e.performance is not None for e in rewritten):
        return "no rewrite beat the engines by themselves"
    return "no rewrite that applies was measured in time" if rewritten else "no rewrite applies"


def _in_words(bench: Bench) -> str:
    answer = bench.answer
    same = answer.same_settings
    if same is None:
        return "No faster recipe found: no candidate is correct and within the limits. The list says why of each."
    text = f"{same.speedup:.2f}x [{same.interval.low:.2f}, {same.interval.high:.2f}] under equal settings"
    deployed = answer.as_deployed
    if deployed is not None and deployed is not same:
        text += f", {deployed.speedup:.2f}x [{deployed.interval.low:.2f}, {deployed.interval.high:.2f}] as deployed"
    hidden = same.reason or "this machine's noise hides the difference"
    words: dict[Verdict, str] = {
        Verdict.FASTER: f"Faster: {text}",
        Verdict.SAME: f"No faster recipe found: the best candidate is as fast as the baseline ({text})",
        Verdict.SLOWER: f"No faster recipe found: the best candidate is slower than the baseline ({text})",
        Verdict.CANNOT_TELL: f"No faster recipe found that holds: {hidden} ({text})",
    }
    peer: Any = answer.best_peer
    over = answer.over_best_peer
    tail = ""
    if same.verdict == Verdict.FASTER and deployed is not None and deployed.verdict == Verdict.SLOWER:
        tail = ", but slower than the original in its default settings, so that nothing is offered"
    if over is not None and peer is not None:
        told = {Verdict.FASTER: "faster than", Verdict.SAME: "as fast as", Verdict.SLOWER: "slower than"}
        relation = told.get(over.verdict, "not to be told apart from")
        figures = f"{over.speedup:.2f}x [{over.interval.low:.2f}, {over.interval.high:.2f}]"
        tail += f"; {relation} the best peer {peer.name} ({figures})"
    elif peer is not None and answer.winner == peer.name:
        tail += f"; {_rewrites_in_words(bench)}, so that the best engine by itself is what leads: {peer.name}"
    tail += in_words(answer.limits)
    return words[same.verdict] + tail + "."
