"""Purpose `replay`: exactly the steps of a recipe on another model: precondition, verification, measurement."""

from __future__ import annotations

from pathlib import Path

from optimizer import machine
from optimizer.coordinator import deliver
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.context import RunContext
from optimizer.coordinator.evaluate import Evaluator, evaluator
from optimizer.coordinator.prepare import Bench, conditions, make_verifier, prepare, ready_toolchain, roofs
from optimizer.coordinator.workshop import Plan
from optimizer.errors import FuseworksError, catalogue
from optimizer.recipe import Machine, Recipe, as_document, check_graph, check_target, digest, load_recipe
from optimizer.result import Candidate, Comparison, EvaluationStatus, Verdict
from optimizer.spec import PassStep

catalogue(
    {
        "replay:user:does-not-apply": (
            "The recipe {name} does not apply: {reason}.",
            "Run `fuseworks optimize` on this model instead: it finds what does apply.",
        ),
        "replay:user:precision": (
            "The recipe {name} computes in {precision}, which this run's policy does not allow.",
            "Allow it with --precision {asked}, if the model's accuracy may be touched.",
        ),
        "replay:user:not-accepted": (
            "The recipe {name} was replayed and is not accepted on this model: {reason}.",
            "Run `fuseworks optimize` on this model: another recipe may serve it.",
        ),
    }
)


def replay(context: RunContext, answer: Answer) -> None:
    """Raises FuseworksError `replay:user:does-not-apply` before compiling, `replay:user:not-accepted` after."""
    if context.spec.recipe is None:
        raise FuseworksError("run:usage:spec", text="a replay needs a recipe", place="recipe")
    recipe = load_recipe(Path(context.spec.recipe))
    answer.recipe, answer.recipe_digest = as_document(recipe), digest(recipe)
    # the stricter of what the recipe promises and what the run asks for
    ratio = min(context.spec.policy.max_error_ratio, recipe.accept.max_error_ratio)
    policy = context.spec.policy.model_copy(update={"max_error_ratio": ratio})
    context.spec = context.spec.model_copy(update={"policy": policy})
    bench = prepare(context, answer, Path(context.spec.model))
    try:
        _replay(bench, recipe)
    finally:
        bench.close()


def _replay(bench: Bench, recipe: Recipe) -> None:
    context, answer = bench.context, bench.answer
    name = recipe.metadata.name
    here = Machine(target=context.target, isa=machine.cpu_isa(), libraries=machine.library_versions())
    reason = check_target(recipe, here, bench.workload.mode)
    if reason is not None:
        raise FuseworksError("replay:user:does-not-apply", place="applies_to", name=name, reason=reason)
    candidate = Candidate(name=name, steps=list(recipe.steps), why=f"recipe {name} {recipe.metadata.version}")
    plan = Plan.of(candidate)
    with context.events.stage("optimizing", f"Checking {name}'s precondition against the graph", name):
        answer.rewrites = bench.shop.rewrite(plan.passes).rewrites
        reason = check_graph(recipe, answer.rewrites)
    if reason is not None:
        raise FuseworksError("replay:user:does-not-apply", place="applies_to.graph", name=name, reason=reason)
    if plan.precision_name not in context.spec.policy.precisions:
        raise FuseworksError(
            "replay:user:precision", place="steps", name=name, precision=plan.precision_name, asked=plan.precision_name
        )
    if plan.backend.backend in {"inductor", "aot_inductor"}:
        context.unhurried(ready_toolchain)
    bench.roofs = roofs(context)
    verifier = make_verifier(bench)
    with evaluator(bench, verifier, plan.settings) as judge:
        evaluation = judge.evaluate(candidate)
        peer = _peer(bench, candidate, judge) if evaluation.status == EvaluationStatus.PASSED else None
    if evaluation.status != EvaluationStatus.PASSED:
        if evaluation.problem is not None and evaluation.problem.side == "ours":
            raise FuseworksError.from_document(evaluation.problem.model_dump())
        reason = f"{evaluation.status.value.replace('_', ' ')}: {evaluation.reason}"
        raise FuseworksError("replay:user:not-accepted", name=name, reason=reason)
    judgement = deliver.judged(bench, candidate, peer, deadline=context.deadline(0.0), simplest=False)
    answer.conditions = conditions(context, judgement.settings)
    same = answer.same_settings
    assert same is not None
    measured = f"{same.speedup:.2f}x [{same.interval.low:.2f}, {same.interval.high:.2f}]"
    answer.summary = f"{name} replayed: {measured}, {same.verdict.value.replace('_', ' ')}."
    answer.not_accepted_because = _against(recipe, same, answer.as_deployed, is_winner=judgement.winner is candidate)
    answer.accepted = answer.offered = not answer.not_accepted_because
    if answer.accepted:
        answer.summary += " Accepted."
        answer.artifacts += deliver.package(bench, candidate)
    else:
        answer.summary += f" Not accepted: {answer.not_accepted_because}."


def _against(recipe: Recipe, same: Comparison, deployed: Comparison | None, *, is_winner: bool) -> str:
    """Why the recipe did not do what it asks of itself; empty when it did."""
    wanted = recipe.accept.min_speedup
    if same.verdict != Verdict.FASTER:
        return "only a recipe that is faster is"
    if same.speedup < wanted:
        return f"the recipe asks for at least {wanted}x"
    if deployed is not None and deployed.verdict == Verdict.SLOWER:
        return "it is slower than the original in its default settings"
    if not is_winner:
        return "its backend is faster without the rewrites"
    return ""


def _peer(bench: Bench, candidate: Candidate, judge: Evaluator) -> Candidate | None:
    """The recipe's own backend without its rewrites: what the reader could have had without the recipe."""
    steps = [step for step in candidate.steps if not isinstance(step, PassStep)]
    backend = Plan.of(candidate).backend.backend
    peer = Candidate(name=backend, steps=steps, peer=True, why="the recipe's backend without its rewrites")
    if backend == bench.captured.baseline_backend or len(steps) == len(candidate.steps):
        return None
    return peer if judge.evaluate(peer).status == EvaluationStatus.PASSED else None
