"""int8 by layer: has every linear layer measured in a child, and proposes the graph with the layers that gain from it.

While engines are built: the precisions of a layer take turns, so that this disturbs them alike. A graph that cannot be
measured costs this candidate only. Not for ONNX uploads: no rewrite of theirs goes to int8.
"""

from __future__ import annotations

from pydantic import ValidationError

from optimizer.compiling.kept import in_words_of_shapes
from optimizer.coordinator.peers import JUDGING_SHARE
from optimizer.coordinator.prepare import Bench
from optimizer.errors import FuseworksError
from optimizer.optimizing.planner import Planner
from optimizer.result import Candidate, LayerPlan, LayerPrecision
from optimizer.spec import KeepFloat32, Precision
from optimizer.verifying.questions import Question
from optimizer.verifying.verify import Verifier

PRECISION: Precision = "int8"
# Each layer runs the graph below it once more for each set; a spread over samples wants three of them.
SETS = 3
LEAST_TIMEOUT_S, TIMEOUT_SHARE, ERRORS_SHARE = 60.0, 0.2, 0.08  # of the budget


def by_layer(bench: Bench, planner: Planner, verifier: Verifier) -> list[Candidate]:
    """The candidates, and why of each layer in `answer.layer_plans`. None where nothing may or can be in int8."""
    context, answer = bench.context, bench.answer
    if not planner.by_layer(KeepFloat32()) or bench.captured.format != "pt2":
        return []
    if context.remaining_s() < JUDGING_SHARE * context.spec.policy.budget_s:
        answer.note(context, "Nothing is tried in int8 layer by layer: the rest of the time is kept for the judgement.")
        return []
    try:
        with context.events.stage("optimizing", "Measuring what each layer costs and gains in int8"):
            layers, share, samples = _measured(bench, planner, verifier)
    except FuseworksError as error:
        answer.note(context, f"The layers could not be measured in int8 one by one: {error.message}")
        return []
    chosen = [layer for layer in layers if layer.precision == PRECISION]
    context.events.emit("optimizing", f"int8 in {len(chosen)} of {len(layers)} linear layers")
    keep = keeping(layers)
    candidates = planner.by_layer(keep) if chosen else []
    if not planner.passes() and keep == KeepFloat32():  # all layers and no rewrite: a peer, but for the rest
        candidates = candidates[1:]
    if layers:
        names = [candidate.name for candidate in candidates]
        answer.layer_plans.append(LayerPlan(candidates=names, layers=layers, share_of_allowed=share, samples=samples))
    return candidates


def keeping(layers: list[LayerPrecision]) -> KeepFloat32:
    """What the step says of the layers that were not chosen."""
    kept = {place for place, layer in enumerate(layers) if layer.precision != PRECISION}
    return KeepFloat32(layers=in_words_of_shapes([(layer.inputs, layer.outputs) for layer in layers], kept))


def _measured(bench: Bench, planner: Planner, verifier: Verifier) -> tuple[list[LayerPrecision], float, int]:
    """Raises FuseworksError."""
    context, budget_s = bench.context, bench.context.spec.policy.budget_s
    model = bench.shop.rewrite(planner.passes()).model
    truths = verifier.captured or verifier.truths
    asked = [question for question in truths.pooled if question.items == truths.pooled[0].items][:SETS]
    rule = verifier.rule(PRECISION)
    with context.child("sensitivity", {"model": model}) as child:
        reply = child.call(
            "optimizing.sensitivity",
            [array for question in asked for array in (*question.arrays, *question.truth)],
            timeout_s=max(LEAST_TIMEOUT_S, TIMEOUT_SHARE * budget_s),
            model=child.path("model"),
            sets=len(asked),
            inputs=len(asked[0].arrays),
            items=asked[0].items,
            names=truths.names,
            precision=PRECISION,
            rule={"ratio": rule.ratio, "floor": rule.floor, "bound": rule.bound, "limit": rule.limit},
            threads=context.threads,
            seconds=ERRORS_SHARE * budget_s,
        )
    try:
        layers = [LayerPrecision.model_validate(layer) for layer in reply.fields["layers"]]
        return layers, float(reply.fields["share_of_allowed"]), _items(asked)
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        raise FuseworksError("child:user:bad-answer", text=f"bad layers: {error}"[:500]) from error


def _items(asked: list[Question]) -> int:
    return sum(question.items for question in asked)
