"""Purpose `replay`: exactly the steps of a recipe on another model: precondition, verification, measurement."""

from __future__ import annotations

from pathlib import Path

from optimizer import machine
from optimizer.coordinator import deliver
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.context import RunContext
from optimizer.coordinator.evaluate import evaluator
from optimizer.coordinator.prepare import Bench, conditions, make_verifier, prepare, ready_toolchain
from optimizer.coordinator.workshop import Plan
from optimizer.errors import FuseworksError, catalogue
from optimizer.recipe import Machine, Recipe, as_document, check_graph, check_target, digest, load_recipe
from optimizer.result import Candidate, EvaluationStatus, Verdict

catalogue(
    {
        "replay:user:does-not-apply": (
            "The recipe {name} does not apply: {reason}.",
            "Run `fuseworks optimize` on this model instead: it finds what does apply.",
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
    if plan.backend.backend in {"inductor", "aot_inductor"}:
        context.unhurried(ready_toolchain)
    verifier = make_verifier(bench)
    with evaluator(bench, verifier, plan.settings) as judge:
        evaluation = judge.evaluate(candidate)
    if evaluation.status != EvaluationStatus.PASSED:
        raise FuseworksError("replay:user:not-accepted", name=name, reason=f"{evaluation.status}: {evaluation.reason}")
    judgement = deliver.judged(bench, candidate, None, plan.settings, deadline=context.deadline(0.0))
    answer.conditions = conditions(context, judgement.settings)
    same = answer.same_settings
    assert same is not None
    wanted = recipe.accept.min_speedup
    measured = f"{same.speedup:.2f}x [{same.interval.low:.2f}, {same.interval.high:.2f}]"
    answer.summary = f"{name} replayed: {measured}, verdict {same.verdict.value.replace('_', ' ')}."
    if same.verdict != Verdict.FASTER or (wanted is not None and same.speedup < wanted):
        answer.summary += f" Not accepted: the recipe asks for at least {wanted}x."
        return
    answer.artifacts += deliver.package(bench, candidate)
