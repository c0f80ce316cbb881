"""Purpose `explain`: what a model would come to on a GPU that is not there, before and after our passes. Times nothing.

All figures are predicted. Not for ONNX graphs, and not for AMD's GPUs: Inductor is made to lower for CUDA only.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

import optimizer.predicting.errors  # noqa: F401
from kernels.aot.devices import TARGETS, Device, UnknownTarget, device_of
from optimizer import devices
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.capture import Captured, capture
from optimizer.coordinator.context import RunContext
from optimizer.coordinator.rewriting import match_passes
from optimizer.coordinator.workshop import Workshop
from optimizer.errors import FuseworksError
from optimizer.optimizing.pass_targets import matched_only
from optimizer.predicting.document import Difference, Lowering, Prediction
from optimizer.predicting.formula import formula
from optimizer.spec import PassStep

KNOWN = tuple(target for target in TARGETS if target.startswith("cuda:"))


def explain(context: RunContext, answer: Answer) -> None:
    device = device_for(context.target)
    captured = capture(context, Path(context.spec.model), context.spec.workload)
    answer.workload, answer.inspection = captured.workload, captured.inspection
    if captured.format == "onnx":
        raise FuseworksError("predicting:user:wrong-format", place=Path(context.spec.model).name)
    shop = Workshop(context, captured)
    with context.events.stage("optimizing", "Matching every pass against the graph"):
        answer.rewrites = match_passes(context, shop, answer)
    answer.predicted = predict(context, captured, shop, answer, device)
    answer.summary = summary(answer.predicted)


def is_absent(target: str) -> bool:
    """Whether the target is one to predict for, and no GPU is here that it could be."""
    return target in KNOWN and devices.why_none() is not None


def device_for(target: str) -> Device:
    """Raises FuseworksError (`predicting:user:unknown-target`)."""
    try:
        device = device_of(target)
    except UnknownTarget as error:
        told = {"target": target, "text": str(error).partition(";")[0], "known": ", ".join(KNOWN)}
        raise FuseworksError("predicting:user:unknown-target", place="target", **told) from error
    if device.target not in KNOWN:
        told = {"target": target, "text": "Inductor is made to lower for CUDA only", "known": ", ".join(KNOWN)}
        raise FuseworksError("predicting:user:unknown-target", place="target", **told)
    return device


def predict(context: RunContext, captured: Captured, shop: Workshop, answer: Answer, device: Device) -> Prediction:
    """Raises FuseworksError."""
    unused = matched_only(context.target)
    rewrites = [r for r in answer.rewrites if r.applied and r.pass_ not in unused]
    applied = tuple(PassStep(pass_=r.pass_, options=r.options) for r in rewrites)
    models = {"before": captured.model}
    if applied:
        models["after"] = shop.rewrite(applied).model
    with (
        context.events.stage("compiling", f"Lowering for {device.target}, which is not here"),
        context.child("predict", models) as child,
    ):
        reply = child.call(
            "predicting.lower",
            timeout_s=context.build_timeout_s(),
            on_progress=lambda message, _: context.events.emit("compiling", message),
            models={name: child.path(name) for name in models},
            target=device.target,
            workload=captured.workload.model_dump(by_alias=True, mode="json"),
        )
    try:
        lowered = {name: Lowering.model_validate(reply.fields["lowered"][name]) for name in models}
    except (KeyError, TypeError, ValidationError) as error:
        raise FuseworksError("child:user:bad-answer", text=f"the prediction is not valid: {error}") from error
    before, after = lowered["before"], lowered.get("after", lowered["before"])
    return Prediction(
        target=device.target,
        device=device.name,
        device_sources=list(device.sources),
        sizes=captured.workload.sizes(),
        before=before,
        after=after,
        applied=[step.pass_ for step in applied],
        difference=difference(before, after),
        formula=formula(),
    )


def difference(before: Lowering, after: Lowering) -> Difference:
    low, high = (a - b for a, b in zip(after.predicted_ms, before.predicted_ms, strict=True))
    return Difference(
        kernels_launched=after.kernels_launched - before.kernels_launched,
        bytes_moved=after.bytes_moved - before.bytes_moved,
        predicted_ms=(low, high),
    )


def summary(predicted: Prediction) -> str:
    after = predicted.after
    launched = f"{after.kernels_launched} kernels launched"
    text = f"Predicted for {predicted.device}: {_range(after.predicted_ms)} a call, {launched}"
    if not predicted.applied:
        return f"{text}; no rewrite of ours fits this graph"
    before = predicted.before
    return f"{text}; without our rewrites {_range(before.predicted_ms)} and {before.kernels_launched}"


def _range(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.3g} to {ends[1]:.3g} ms"
