"""bfloat16 and int8 by layer: has every layer measured in a child, and proposes the graph with those that gain from it.

While engines are built: the precisions of a layer take turns, so that this disturbs them alike. A graph that cannot be
measured costs this candidate only. Not for ONNX uploads: no rewrite of theirs goes to a lower precision.
"""

from __future__ import annotations

import math

from pydantic import ValidationError

from optimizer.compiling.base import serving_sizes
from optimizer.compiling.kept import Shape, in_words_of_shapes
from optimizer.coordinator.peers import JUDGING_SHARE
from optimizer.coordinator.prepare import Bench
from optimizer.errors import FuseworksError
from optimizer.optimizing.planner import Planner
from optimizer.result import Candidate, LayerPlan, LayerPrecision
from optimizer.spec import KeepFloat32, Precision, PrecisionStep, Workload
from optimizer.verifying.questions import Question
from optimizer.verifying.verify import Verifier

LOWER: tuple[Precision, ...] = ("bfloat16", "int8")
# Each layer runs the graph below it once more for each set; a spread over samples wants three of them.
SETS = 3
LEAST_TIMEOUT_S, TIMEOUT_SHARE, ERRORS_SHARE = 60.0, 0.2, 0.08  # of the budget


def by_layer(bench: Bench, planner: Planner, verifier: Verifier) -> list[Candidate]:
    """The candidates, and why of each layer in `answer.layer_plans`. None where nothing may or can be in a lower
    precision."""
    if bench.captured.format != "pt2":
        return []
    found, in_bfloat16 = [], list[LayerPrecision]()
    for precision in LOWER:
        candidates, layers = _by_layer(bench, planner, verifier, precision, in_bfloat16)
        found += candidates
        in_bfloat16 = layers
    return found


def _by_layer(
    bench: Bench, planner: Planner, verifier: Verifier, precision: Precision, in_bfloat16: list[LayerPrecision]
) -> tuple[list[Candidate], list[LayerPrecision]]:
    """`in_bfloat16`: what was measured of the layers in it, for those that are not int8."""
    context, answer = bench.context, bench.answer
    if not planner.by_layer(PrecisionStep(precision=precision)):
        return [], []
    if context.remaining_s() < JUDGING_SHARE * context.spec.policy.budget_s:
        text = f"Nothing is tried in {precision} layer by layer: the rest of the time is kept for the judgement."
        answer.note(context, text)
        return [], []
    try:
        with context.events.stage("optimizing", f"Measuring what each layer costs and gains in {precision}"):
            layers, share, samples = _measured(bench, planner, verifier, precision)
    except FuseworksError as error:
        answer.note(context, f"The layers could not be measured in {precision} one by one: {error.message}")
        return [], []
    chosen = [layer.node for layer in layers if layer.precision == precision]
    context.events.emit("optimizing", f"{precision} in {len(chosen)} of {len(layers)} layers")
    rest = [layer for layer in in_bfloat16 if layer.node not in chosen]
    rest_keep = None if rest and all(layer.precision == "float32" for layer in rest) else keeping(rest)
    candidates = planner.by_layer(step_of(layers, precision), rest_keep) if chosen else []
    is_whole = len(chosen) == len(layers)
    weight_only = any(layer.weight_only for layer in layers)
    if is_whole and precision == "int8" and not planner.passes() and not weight_only:  # a peer, but for the rest
        candidates = candidates[1:]
    if layers:
        names = [candidate.name for candidate in candidates]
        answer.layer_plans.append(LayerPlan(candidates=names, layers=layers, share_of_allowed=share, samples=samples))
    # the whole graph in bfloat16 is proposed on several engines anyway
    return [] if is_whole and precision == "bfloat16" else candidates, layers


def step_of(layers: list[LayerPrecision], precision: Precision) -> PrecisionStep:
    by_weight = {place for place, layer in enumerate(layers) if layer.weight_only and layer.precision == precision}
    weight_only = in_words_of_shapes(_shapes(layers), by_weight)
    return PrecisionStep(precision=precision, keep_float32=keeping(layers), weight_only=weight_only)


def growth(workload: Workload) -> float:
    """How many times as many rows as in a call of the measured size the largest size has that is served."""
    measured = workload.sizes()
    return max(math.prod(size[name] / measured[name] for name in measured) for size in serving_sizes(workload))


def keeping(layers: list[LayerPrecision]) -> KeepFloat32:
    """What the step says of the layers that were not chosen."""
    kept = {place for place, layer in enumerate(layers) if layer.precision == "float32"}
    return KeepFloat32(layers=in_words_of_shapes(_shapes(layers), kept))


def _shapes(layers: list[LayerPrecision]) -> list[Shape]:
    return [Shape(layer.inputs, layer.outputs, layer.operation) for layer in layers]


def _measured(
    bench: Bench, planner: Planner, verifier: Verifier, precision: Precision
) -> tuple[list[LayerPrecision], float, int]:
    """Raises FuseworksError."""
    context, budget_s = bench.context, bench.context.spec.policy.budget_s
    model = bench.shop.rewrite(planner.passes()).model
    truths = verifier.captured or verifier.truths
    asked = [question for question in truths.pooled if question.items == truths.pooled[0].items][:SETS]
    rule = verifier.rule(precision)
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
            precision=precision,
            rule={"ratio": rule.ratio, "floor": rule.floor, "bound": rule.bound, "limit": rule.limit},
            threads=context.threads,
            growth=growth(bench.workload),
            seconds=ERRORS_SHARE * budget_s,
        )
    try:
        layers = [LayerPrecision.model_validate(layer) for layer in reply.fields["layers"]]
        return layers, float(reply.fields["share_of_allowed"]), _items(asked)
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        raise FuseworksError("child:user:bad-answer", text=f"bad layers: {error}"[:500]) from error


def _items(asked: list[Question]) -> int:
    return sum(question.items for question in asked)
