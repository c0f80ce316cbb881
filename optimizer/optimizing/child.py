"""The operations of a child that rewrites graphs: `optimizing.rewrite`, and the passes that it knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

import optimizer.optimizing.errors  # noqa: F401
from optimizer.children.session import Session
from optimizer.errors import FuseworksError
from optimizer.optimizing.any_pass import steps_of
from optimizer.optimizing.base import run_passes, standard_order
from optimizer.optimizing.graph import Graph
from optimizer.result import Rewrite
from optimizer.spec import Workload

Answer = tuple[dict[str, Any], list[np.ndarray]]


def rewrite(session: Session, request: dict[str, Any], arrays: list[np.ndarray]) -> Answer:
    """{model, format: pt2|onnx, passes: [{pass, options}] | null, workload?} → {rewrites, promised}; file `rewritten.*`
    if any applied. `promised`: the inputs that must repeat over the batch for it to be right, by name."""
    passes = request.get("passes")
    promised: list[str] = []
    if request["format"] == "onnx":
        from optimizer.optimizing.onnx_passes import rewrite_onnx

        out = session.scratch / "rewritten.onnx"
        rewrites = rewrite_onnx(Path(request["model"]), passes, out)
    else:
        out = session.scratch / "rewritten.pt2"
        workload = Workload.model_validate(request["workload"]) if request.get("workload") else None
        rewrites, promised = rewrite_pt2(Path(request["model"]), passes, out, workload)
    if any(r.applied for r in rewrites):
        session.send_file(out.name, out)
        out.unlink()
    return {"rewrites": [r.model_dump(by_alias=True, mode="json") for r in rewrites], "promised": promised}, []


def rewrite_pt2(
    model: Path, passes: list[dict[str, Any]] | None, out: Path, workload: Workload | None = None
) -> tuple[list[Rewrite], list[str]]:
    """Runs the passes (None: all, standard order) and saves the program to `out` if anything was applied. With what
    they did, the inputs on whose promise the program relies.

    Raises FuseworksError `optimizing:user:bad-model`, `optimizing:user:unknown-pass`, `optimizing:user:bad-options`.
    """
    _register_custom_operations()
    try:
        exported = torch.export.load(model)
    except Exception as error:  # whatever the file does to the loader, it is the file's fault
        raise FuseworksError("optimizing:user:bad-model", text=f"{type(error).__name__}: {error}"[:1000]) from error
    graph = Graph.from_exported(exported)
    names = [] if workload is None else [spec.name for spec in workload.inputs]
    promised = [] if workload is None else workload.same_over_batch()
    graph.promised = [names.index(name) for name in promised]
    with torch.no_grad():
        rewrites = run_passes(graph, steps_of(passes))
        if any(r.applied for r in rewrites):
            torch.export.save(graph.to_exported(), out)
    return rewrites, promised if graph.relies_on_promise else []


def _register_custom_operations() -> None:
    """A program that was rewritten before may hold the library's custom operations: they must exist before loading."""
    from kernels import KERNELS

    KERNELS.load()


def passes(session: Session, request: dict[str, Any], arrays: list[np.ndarray]) -> Answer:
    """{format: pt2|onnx} → {passes}: their names, in standard order."""
    if request["format"] == "onnx":
        from optimizer.optimizing.onnx_passes.base import standard_order as onnx_standard_order

        return {"passes": [one.name for one in onnx_standard_order()]}, []
    return {"passes": [one.name for one in standard_order()]}, []


OPERATIONS = {"rewrite": rewrite, "passes": passes}
