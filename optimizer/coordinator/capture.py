"""Takes the upload in: inspected without torch, then captured into one graph in a child."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from optimizer.capturing.inspector import inspect_upload
from optimizer.capturing.samples import FILE, Samples, read_samples
from optimizer.coordinator.context import RunContext
from optimizer.errors import FuseworksError
from optimizer.result import Inspection
from optimizer.spec import Workload

CAPTURE_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Captured:
    """One upload as the rest of the run sees it. `weights` is set when the upload is a module that we build."""

    upload: Path
    upload_format: Literal["pt2", "py", "zip", "onnx"]
    format: Literal["pt2", "onnx"]
    model: Path
    weights: Path | None
    workload: Workload
    inspection: Inspection
    samples: Samples | None = None

    @property
    def baseline_backend(self) -> str:
        """The upload as its own framework runs it by default."""
        return "onnxruntime" if self.format == "onnx" else "eager"


def capture(context: RunContext, upload: Path, workload: Workload | None) -> Captured:
    """Raises FuseworksError: the inspector's refusals, the capture's, or a workload that is not valid."""
    with context.events.stage("capturing", f"Inspecting {upload.name}"):
        info = inspect_upload(upload)
        folder = context.folder("captured")
        context.events.emit("capturing", f"Capturing the graph of {upload.name} in the sandbox")
        with context.child("capture", {"upload": upload}) as child:
            reply = child.call(
                "capturing.capture",
                timeout_s=CAPTURE_TIMEOUT_S,
                collect=folder,
                upload=child.path("upload"),
                format=info.format,
                shown=upload.name,
                workload=workload.model_dump(by_alias=True, mode="json") if workload else None,
                seed=context.seed,
            )
    graph_format: Literal["pt2", "onnx"] = "onnx" if (folder / "captured.onnx").exists() else "pt2"
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


def _inspection(document: Any, info: Any) -> Inspection:
    try:
        return Inspection.model_validate(
            {**dict(document or {}), "format": info.format, "sha256": info.sha256, "size_bytes": info.size_bytes}
        )
    except (ValidationError, TypeError) as error:
        raise FuseworksError("child:user:bad-answer", text=f"the inspection is not valid: {error}") from error
