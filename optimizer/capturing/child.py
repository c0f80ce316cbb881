"""The capture's operation: an upload becomes one graph, a filled workload and an inspection. In a child only."""

from __future__ import annotations

import logging
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

import optimizer.capturing.errors  # noqa: F401
from optimizer.capturing.samples import FILE
from optimizer.children.session import Session
from optimizer.errors import FuseworksError
from optimizer.spec import Mode


def capture(
    session: Session, request: dict[str, Any], arrays: list[np.ndarray]
) -> tuple[dict[str, Any], list[np.ndarray]]:
    """`{upload, format, workload, seed}` → `{workload, inspection, content?, outline?}`; sends the graph, a module's
    weights, and those samples that the workload names, where the upload holds them. `content`: a digest of what was
    captured; `outline`: the graph as data."""
    format, upload = str(request["format"]), Path(request["upload"])
    logging.getLogger("torch").setLevel(logging.ERROR)
    zipped = format == "zip"
    if zipped and (inner := onnx_inside(upload, session.scratch)) is not None:
        format, upload = "onnx", inner
    if format == "onnx":
        from optimizer.capturing.onnx_model import capture_onnx

        fields = capture_onnx(session, upload, request.get("workload"))
        _send_samples(session, fields["workload"], upload.parent if zipped else None)
    elif format in ("py", "zip", "pt2"):
        fields = _torch(session, upload, format, request)
    else:
        raise FuseworksError("capturing:ours:format", format=format)
    return fields, []


def _torch(session: Session, upload: Path, format: str, request: dict[str, Any]) -> dict[str, Any]:
    from optimizer.capturing.content import content_digest
    from optimizer.capturing.torch_exported import capture_exported
    from optimizer.capturing.torch_graph import save_program
    from optimizer.capturing.torch_inspection import inspection
    from optimizer.capturing.torch_module import load_module
    from optimizer.capturing.torch_outline import outline
    from optimizer.capturing.torch_step import capture_step, save_step
    from optimizer.capturing.torch_upload import capture_upload, given_workload
    from optimizer.capturing.torch_weights import save_weights

    seed, design = int(request.get("seed") or 0), None
    if format == "pt2":
        captured = capture_exported(upload, request.get("workload"), seed)
    else:
        session.progress("Building the module")
        user = load_module(upload, format, session.scratch, seed, shown=request.get("shown"))
        session.progress("Exporting the graph")
        given, at = given_workload(user, request.get("workload"))
        if given is not None and given.mode is Mode.TRAINING:
            captured, design = capture_step(user, given, at, seed)
        else:
            captured = capture_upload(user, request.get("workload"), seed)
        weights = session.scratch / "weights.safetensors"
        save_weights(user.module, weights, user.fixed)
        session.send_file("weights.safetensors", weights)
        _send_samples(session, captured.workload.model_dump(include={"samples"}), user.folder)
    model = session.scratch / ("captured.pt2" if design is None else "captured.step")
    if design is None:
        save_program(captured.program, model)
    else:
        save_step(captured.program, design, model)
    session.send_file(model.name, model)
    outlined = outline(captured.program, captured.workload)
    return {
        "workload": captured.workload.model_dump(by_alias=True, mode="json"),
        "inspection": inspection(captured),
        "content": content_digest(captured.program),
        "outline": outlined.model_dump(mode="json", exclude_defaults=True) if outlined is not None else None,
    }


def _send_samples(session: Session, workload: dict[str, Any], folder: Path | None) -> None:
    """Under one name: whether they were needed, and what they hold, is the coordinator's to say."""
    name = workload.get("samples")
    if name and folder is not None and (folder / name).is_file():
        session.send_file(FILE, folder / name)


def onnx_inside(upload: Path, scratch: Path) -> Path | None:
    """The model of a zip that holds one `.onnx` with its weights beside it, unpacked; None for any other zip."""
    with zipfile.ZipFile(upload) as archive:
        names = [name for name in archive.namelist() if name.endswith(".onnx")]
        if len(names) != 1 or any(Path(name).name == "model.py" for name in archive.namelist()):
            return None
        archive.extractall(scratch / "upload")
    return scratch / "upload" / names[0]


OPERATIONS = {"capture": capture}
