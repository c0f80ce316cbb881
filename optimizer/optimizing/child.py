"""The operations of a child that rewrites graphs: `optimizing.rewrite`, and the passes that it knows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import optimizer.optimizing.errors  # noqa: F401
from kernels.lowering import lower_to_reference
from optimizer.children.session import Session
from optimizer.errors import FuseworksError
from optimizer.optimizing.any_pass import steps_of
from optimizer.optimizing.base import run_passes, standard_order
from optimizer.optimizing.graph import Graph
from optimizer.result import Rewrite
from optimizer.spec import Workload

Answer = tuple[dict[str, Any], list[np.ndarray]]


def rewrite(session: Session, request: dict[str, Any], arrays: list[np.ndarray]) -> Answer:
    """{model, format: pt2|onnx|step, passes: [{pass, options}] | null, matched_only: [pass], workload?} → {rewrites,
    promised}; and the file `rewritten.*` if any applied. `promised`: the inputs that must repeat over the batch for it
    to be right, by name. `matched_only`, of a .pt2: passes that say what they would do and leave the file alone."""
    passes = request.get("passes")
    promised: list[str] = []
    if request["format"] == "onnx":
        from optimizer.optimizing.onnx_passes import rewrite_onnx

        out = session.scratch / "rewritten.onnx"
        rewrites = rewrite_onnx(Path(request["model"]), passes, out)
    elif request["format"] == "step":
        from optimizer.optimizing.step_passes import rewrite_step

        out = session.scratch / "rewritten.step"
        rewrites = rewrite_step(Path(request["model"]), passes, out)
    else:
        out = session.scratch / "rewritten.pt2"
        workload = Workload.model_validate(request["workload"]) if request.get("workload") else None
        matched_only = [str(name) for name in request.get("matched_only") or []]
        rewrites, promised = rewrite_pt2(Path(request["model"]), passes, out, workload, matched_only)
    if out.exists():
        session.send_file(out.name, out)
        out.unlink()
    return {"rewrites": [r.model_dump(by_alias=True, mode="json") for r in rewrites], "promised": promised}, []


def rewrite_pt2(
    model: Path,
    passes: list[dict[str, Any]] | None,
    out: Path,
    workload: Workload | None = None,
    matched_only: Sequence[str] = (),
) -> tuple[list[Rewrite], list[str]]:
    """Runs the passes (None: all, standard order) and saves the program to `out` if anything was applied. With what
    they did, the inputs on whose promise the program relies. Those of `matched_only` run on what was saved.

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
        steps = steps_of(passes)
        if steps is None:
            steps = [(one.name, {}) for one in standard_order()]
        rewrites = run_passes(graph, [step for step in steps if step[0] not in matched_only])
        if any(r.applied for r in rewrites):
            torch.export.save(graph.to_exported(), out)
        relied_on = promised if graph.relies_on_promise else []
        rewrites += run_passes(graph, [step for step in steps if step[0] in matched_only])
    return rewrites, relied_on


def _register_custom_operations() -> None:
    """A program that was rewritten before may hold the library's custom operations: they must exist before loading."""
    from kernels import KERNELS

    KERNELS.load()


def passes(session: Session, request: dict[str, Any], arrays: list[np.ndarray]) -> Answer:
    """{format: pt2|onnx|step} → {passes}: their names, in standard order."""
    if request["format"] == "onnx":
        from optimizer.optimizing.onnx_passes.base import standard_order as onnx_standard_order

        return {"passes": [one.name for one in onnx_standard_order()]}, []
    if request["format"] == "step":
        from optimizer.optimizing.step_passes.base import standard_order as step_standard_order

        return {"passes": [one.name for one in step_standard_order()]}, []
    return {"passes": [one.name for one in standard_order()]}, []


def sensitivity(session: Session, request: dict[str, Any], arrays: list[np.ndarray]) -> Answer:
    """{model, sets, inputs, items, names, precision, rule, threads, growth, seconds} → {layers, share_of_allowed}. The
    arrays are those of each set: its inputs, then the true answers."""
    from optimizer.compiling.bfloat16 import functional
    from optimizer.compiling.torch_program import load_program
    from optimizer.optimizing.precisions.sensitivity import measure, questions_of
    from optimizer.verifying.numerics import Rule

    torch.set_num_threads(int(request["threads"]))
    questions = questions_of(arrays, int(request["sets"]), int(request["inputs"]), int(request["items"]))
    with torch.no_grad():
        exported = lower_to_reference(load_program(Path(request["model"])))
        if request["precision"] == "bfloat16":  # as its rewrite does
            exported = functional(exported)
        rule, names = Rule(**request["rule"]), [str(name) for name in request["names"]]
        graph, seconds = Graph.from_exported(exported), float(request["seconds"])
        growth = float(request.get("growth") or 1.0)
        layers, choice = measure(graph, questions, names, request["precision"], rule, seconds, growth)
    return {"layers": [layer.model_dump(mode="json") for layer in layers], "share_of_allowed": choice.share}, []


OPERATIONS = {"rewrite": rewrite, "passes": passes, "sensitivity": sensitivity}
