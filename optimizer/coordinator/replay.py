"""Purpose `replay`: exactly the steps of a recipe on another model: precondition, verification, measurement."""

from __future__ import annotations

from pathlib import Path

from optimizer import machine
from optimizer.coordinator import deliver, winner_profile
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.context import RunContext
from optimizer.coordinator.evaluate import evaluator
from optimizer.coordinator.limits import settle_precisions
from optimizer.coordinator.peers import COMPILERS, best_peer
from optimizer.coordinator.prepare import Bench, conditions, make_verifier, prepare, ready_toolchain, roofs
from optimizer.coordinator.workshop import Plan
from optimizer.errors import FuseworksError, catalogue
from optimizer.recipe import Machine, Recipe, as_document, check_graph, check_target, digest, load_recipe
from optimizer.result import Candidate, Comparison, Evaluation, EvaluationStatus, Verdict
from optimizer.spec import Precision

catalogue(
    {
        "replay:user:does-not-apply": (
            "The recipe {name} does not apply: {reason}.",
            "Run `fuseworks optimize` on this model instead: it finds what does apply.",
        ),
        "replay:user:precision": (
            "The recipe {name} computes in {precision}, which this run's policy and workload do not both allow.",
            "Allow it with --precision {asked} (and under `precisions` of the workload, where it names any), if the "
            "model's accuracy may be touched.",
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
    recipe = opened(context, answer, context.spec.recipe)
    bench = prepare(context, answer, Path(context.spec.model))
    try:
        _replay(bench, recipe)
    finally:
        bench.close()


def opened(context: RunContext, answer: Answer, path: str) -> Recipe:
    """The recipe, told in the answer. From here on the stricter bound counts: the recipe's own or the run's."""
    recipe = load_recipe(Path(path))
    answer.recipe, answer.recipe_digest = as_document(recipe), digest(recipe)
    ratio = min(context.spec.policy.max_error_ratio, recipe.accept.max_error_ratio)
    policy = context.spec.policy.model_copy(update={"max_error_ratio": ratio})
    context.spec = context.spec.model_copy(update={"policy": policy})
    return recipe


def candidate_of(recipe: Recipe, name: str, why: str) -> Candidate:
    return Candidate(name=name, steps=list(recipe.steps), why=why)


def why_not(bench: Bench, recipe: Recipe, candidate: Candidate) -> FuseworksError | None:
    """Why the recipe does not apply to this model here; None when it does. Files the rewrites, and compiles nothing."""
    context, name = bench.context, recipe.metadata.name
    here = Machine(target=context.target, isa=machine.cpu_isa(), libraries=machine.library_versions())
    reason = check_target(recipe, here, bench.workload.mode)
    if reason is not None:
        return FuseworksError("replay:user:does-not-apply", place="applies_to", name=name, reason=reason)
    plan = Plan.of(candidate)
    with context.events.stage("optimizing", f"Checking {name}'s precondition against the graph", name):
        bench.answer.rewrites = bench.shop.rewrite(plan.passes).rewrites
        reason = check_graph(recipe, bench.answer.rewrites)
    if reason is not None:
        return FuseworksError("replay:user:does-not-apply", place="applies_to.graph", name=name, reason=reason)
    return None


def ready_to_build(context: RunContext, plan: Plan) -> None:
    """The compilers' cache, where a step needs it."""
    if plan.backend.backend in COMPILERS and context.toolchain is None:
        context.unhurried(ready_toolchain)


def _replay(bench: Bench, recipe: Recipe) -> None:
    context, answer = bench.context, bench.answer
    name = recipe.metadata.name
    candidate = candidate_of(recipe, name, why=f"recipe {name} {recipe.metadata.version}")
    plan = Plan.of(candidate)
    refused = why_not(bench, recipe, candidate)
    if refused is not None:
        raise refused
    settle_precisions(context, answer, bench.workload)
    rest: list[Precision] = [plan.precision.rest] if plan.precision and plan.precision.rest != "float32" else []
    for wanted in (plan.precision_name, *rest):
        if wanted not in context.spec.policy.precisions:
            raise FuseworksError("replay:user:precision", place="steps", name=name, precision=wanted, asked=wanted)
    ready_to_build(context, plan)
    bench.roofs = roofs(context)
    verifier = make_verifier(bench)
    with evaluator(bench, verifier, plan.settings) as judge:
        evaluation = judge.evaluate(candidate)
        passed = evaluation.status == EvaluationStatus.PASSED
        peer = best_peer(bench, candidate, judge, plan.settings) if passed else None
    must_pass(evaluation, recipe)
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
    winner_profile.profile_both(bench, judgement.winner or candidate)


def must_pass(evaluation: Evaluation, recipe: Recipe) -> None:
    """Raises FuseworksError: `replay:user:not-accepted`, and what is ours as it is."""
    if evaluation.status == EvaluationStatus.PASSED:
        return
    if evaluation.problem is not None and evaluation.problem.side == "ours":
        raise FuseworksError.from_document(evaluation.problem.model_dump())
    reason = f"{evaluation.status.value.replace('_', ' ')}: {evaluation.reason}"
    raise FuseworksError("replay:user:not-accepted", name=recipe.metadata.name, reason=reason)


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
        return "an engine by itself is faster, without the recipe's steps"
    return ""
