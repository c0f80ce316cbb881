"""Takes the upload in: inspected without torch, then captured into one graph in a child."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from optimizer.capturing.inspector import inspect_upload
from optimizer.capturing.outline import Outline
from optimizer.capturing.samples import FILE, Samples, read_samples
from optimizer.coordinator.context import RunContext
from optimizer.errors import FuseworksError, catalogue
from optimizer.result import Inspection
from optimizer.spec import Purpose, Workload

LEAST_S, MOST_S = 120.0, 300.0  # for the model's own code
# Weights are read, saved twice and handed over twice: time that is no fault of the model's code.
WEIGHTS_BYTES_PER_S = 20e6

catalogue(
    {
        "run:user:capture-too-slow": (
            "Capturing the model did not end within {limit_s} s. The last step was: {doing}.",
            "Look for an endless loop in the module, `__init__`, `get_inputs` or `forward`. When the model is only "
            "slow to build: a run with a larger --budget gives it up to 300 s; of an inspection on a site, "
            "FUSEWORKS_INSPECT_BUDGET_S does.",
        ),
    }
)


@dataclass(frozen=True)
class Captured:
    """One upload as the rest of the run sees it. `weights` is set when the upload is a module that we build, from
    random numbers of `seed`. `content`: a digest of graph and weights; None where there is none, and nothing built from
    it is reused. `outline`: None of an ONNX graph, and of a graph with very many nodes."""

    upload: Path
    upload_format: Literal["pt2", "py", "zip", "onnx"]
    format: Literal["pt2", "onnx", "step"]
    model: Path
    weights: Path | None
    workload: Workload
    inspection: Inspection
    samples: Samples | None = None
    seed: int = 0
    content: str | None = None
    outline: Outline | None = None

    @property
    def baseline_backend(self) -> str:
        """The upload as its own framework runs it by default."""
        return {"pt2": "eager", "onnx": "onnxruntime", "step": "eager_step"}[self.format]


def capture(context: RunContext, upload: Path, workload: Workload | None) -> Captured:
    """Raises FuseworksError: the inspector's refusals, the capture's, or a workload that is not valid."""
    with context.events.stage("capturing", f"Inspecting {upload.name}"):
        info = inspect_upload(upload)
        folder = context.folder("captured")
        context.events.emit("capturing", f"Capturing the graph of {upload.name} in the sandbox")
        limit_s, seed = capture_limit_s(context, info.size_bytes), module_seed(context, info.sha256)
        with context.child("capture", {"upload": upload}) as child, _in_time(limit_s) as hear:
            reply = child.call(
                "capturing.capture",
                timeout_s=limit_s,
                collect=folder,
                on_progress=hear,
                upload=child.path("upload"),
                format=info.format,
                shown=upload.name,
                workload=workload.model_dump(by_alias=True, mode="json") if workload else None,
                seed=seed,
            )
    formats: tuple[Literal["onnx", "step"], ...] = ("onnx", "step")
    graph_format: Literal["pt2", "onnx", "step"] = next(
        (f for f in formats if (folder / f"captured.{f}").exists()), "pt2"
    )
    model = folder / f"captured.{graph_format}"
    if not model.exists():
        raise FuseworksError("child:user:bad-answer", text="the capture handed over no graph")
    weights = folder / "weights.safetensors"
    filled = _workload(reply.fields.get("workload"))
    captured = Captured(
        upload=upload,
        upload_format=info.format,
        format=graph_format,
        model=model,
        weights=weights if weights.exists() else None,
        workload=filled,
        inspection=_inspection(reply.fields.get("inspection"), info),
        samples=_samples(folder / FILE, filled),
        seed=seed,
        content=_content(reply.fields.get("content"), model),
        outline=_outline(reply.fields.get("outline")),
    )
    sizes = ", ".join(
        f"{name} = {dim.serve[0]} ({dim.min} to {dim.max})" for name, dim in captured.workload.dims.items()
    )
    context.events.emit(
        "capturing",
        f"{captured.inspection.parameters:,} parameters, {sum(captured.inspection.operations.values())} operations; "
        + (f"dynamic: {sizes}" if sizes else "all shapes static"),
        notes=captured.inspection.notes,
    )
    return captured


def module_seed(context: RunContext, sha256: str) -> int:
    """What a module without weights draws them from: the upload itself, unless the policy says otherwise, so that it is
    one model in every run and what was built of it can be used again. A comparison gives both of its models one seed.
    """
    if context.spec.policy.seed is not None or context.spec.purpose == Purpose.COMPARE:
        return context.seed
    return int(sha256[:8], 16)


def capture_limit_s(context: RunContext, size_bytes: int) -> float:
    """What the run's budget gives, and at least what an inspection has by default: a short budget refuses no model."""
    budget_s = context.spec.policy.budget_s
    if context.spec.purpose != Purpose.INSPECT:
        budget_s = max(LEAST_S, budget_s)
    return float(round(min(MOST_S, budget_s) + size_bytes / WEIGHTS_BYTES_PER_S))


@contextmanager
def _in_time(limit_s: float) -> Iterator[Callable[[str, dict[str, Any]], None]]:
    """Hears what the child says. Raises FuseworksError (`run:user:capture-too-slow`) with the last of it in place of a
    time-out."""
    said = "Starting"

    def hear(message: str, _: dict[str, Any]) -> None:
        nonlocal said
        said = message[:200]

    try:
        yield hear
    except FuseworksError as error:
        if error.id != "child:user:timed-out":
            raise
        told = {"limit_s": f"{limit_s:.0f}", "doing": said}
        raise FuseworksError("run:user:capture-too-slow", detail=error.detail, **told) from error


def _content(said: Any, model: Path) -> str | None:
    """An ONNX graph is a file as it was uploaded; of a torch graph the child says what is in it."""
    if model.suffix == ".onnx":
        with model.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    return said if isinstance(said, str) and re.fullmatch(r"[0-9a-f]{64}", said) else None


def _samples(file: Path, workload: Workload) -> Samples | None:
    """Raises FuseworksError: samples that the workload names are there and fit it, or the run ends."""
    if workload.samples is None:
        return None
    if not file.exists():
        raise FuseworksError("capturing:user:no-samples", place="workload: samples", name=workload.samples)
    return read_samples(file, workload)


def _workload(document: Any) -> Workload:
    try:
        return Workload.model_validate(document)
    except ValidationError as error:
        raise FuseworksError("child:user:bad-answer", text=f"the captured workload is not valid: {error}") from error


def _outline(document: Any) -> Outline | None:
    try:
        return Outline.model_validate(document) if document is not None else None
    except ValidationError as error:
        raise FuseworksError("child:user:bad-answer", text=f"the graph's outline is not valid: {error}") from error


def _inspection(document: Any, info: Any) -> Inspection:
    try:
        return Inspection.model_validate(
            {**dict(document or {}), "format": info.format, "sha256": info.sha256, "size_bytes": info.size_bytes}
        )
    except (ValidationError, TypeError) as error:
        raise FuseworksError("child:user:bad-answer", text=f"the inspection is not valid: {error}") from error
