"""Captures a `.pt2`: the graph as saved. Dynamic dimensions come from its symbols and their ranges.

Loading runs what the archive holds (pickled sample inputs among it): in a sandboxed child only.
"""

from __future__ import annotations

import traceback
import zipfile
from pathlib import Path
from typing import Any

import sympy
import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from optimizer.capturing import torch_graph, torch_workload
from optimizer.capturing.torch_ids import id_bounds
from optimizer.capturing.torch_inputs import DTYPES, check_drawn, dtype_name, output_leaves, resized
from optimizer.capturing.torch_places import frames
from optimizer.capturing.torch_upload import Captured, id_rows, random_note
from optimizer.capturing.torch_workload import Shapes
from optimizer.capturing.workload_document import parse_workload
from optimizer.errors import FuseworksError
from optimizer.spec import Dim, InputSpec, Workload

SIZE_WITHOUT_SAMPLES = 64
OWN_OPERATIONS = b"fuseworks::"


def capture_exported(upload: Path, workload: Any, seed: int) -> Captured:
    """Raises FuseworksError."""
    program = _load(upload)
    given = parse_workload(workload, "workload", no_training="a .pt2") if workload is not None else None
    names = [node.name for node in torch_graph.user_placeholders(program)]
    for node in torch_graph.user_placeholders(program):
        _check_input(node)
    outputs = _output_names(program)
    if given is not None and len(given.inputs) == len(names):
        names = [spec.name for spec in given.inputs]
    torch_graph.normalise(program, names)
    shapes = _shapes(program)
    if given is not None:
        shapes = _renamed(given, shapes)
    samples = _samples(program)
    examples = _examples(program, shapes, samples)
    program.example_inputs = (tuple(examples), {})
    bounds = id_bounds(program, examples)
    filled = torch_workload.filled(given, shapes, samples or [None] * len(names), bounds, "workload")
    notes = _notes(program, samples is not None)
    check_drawn(filled, program.module(check_guards=False), None, seed)
    return Captured(program, filled, outputs, notes, id_rows(filled, bounds))


def _load(upload: Path) -> ExportedProgram:
    if _mentions_own_operations(upload):
        import kernels

        kernels.load()  # registers the fused operations that a saved graph may call
    try:
        return torch.export.load(str(upload))
    except Exception as error:  # many kinds: archive, schema, operators, devices
        raise FuseworksError(
            "capturing:user:pt2-unreadable",
            text=" ".join(str(error).split())[:500] or type(error).__name__,
            detail="".join(traceback.format_exception(error))[-8000:],
            torch=torch.__version__,
        ) from error


def _mentions_own_operations(upload: Path) -> bool:
    try:
        with zipfile.ZipFile(upload) as archive:
            graphs = [name for name in archive.namelist() if name.endswith(".json") and "/models/" in f"/{name}"]
            return any(OWN_OPERATIONS in archive.read(name) for name in graphs)
    except (zipfile.BadZipFile, OSError) as error:
        text = f"it is no zip archive ({error})"
        raise FuseworksError("capturing:user:pt2-unreadable", text=text, torch=torch.__version__) from error


def _check_input(node: fx.Node) -> None:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        kind = type(value).__name__ if value is not None else "constant"
        raise FuseworksError("capturing:user:scalar-input", place=node.name, name=node.name, type=kind)
    if dtype_name(value.dtype) not in DTYPES:
        what = f"a tensor of {dtype_name(value.dtype)} for input {node.name!r}, which a workload cannot hold"
        raise FuseworksError("capturing:user:bad-inputs", place=node.name, function="The exported program", what=what)


def _output_names(program: ExportedProgram) -> list[str]:
    """From the saved structure: a mapping's keys, else out0, out1, ..."""
    spec = program.call_spec.out_spec
    by_name = {n.name: n for n in program.graph.nodes}
    outputs = program.graph_signature.user_outputs
    values = [by_name[o].meta["val"] if isinstance(o, str) and o in by_name else o for o in outputs]
    names, _ = output_leaves(pytree.tree_unflatten(values, spec), None)
    return names


def _shapes(program: ExportedProgram) -> Shapes:
    """Symbols become dims: the one at dim 0 of the first dynamic input is `batch`, others `dim1`, `dim2`, ..."""
    names: dict[sympy.Expr, str] = {}
    dims: dict[str, Dim] = {}
    specs = []
    for node in torch_graph.user_placeholders(program):
        shape: list[int | str] = []
        for index, size in enumerate(node.meta["val"].shape):
            if isinstance(size, int):
                shape.append(size)
                continue
            symbol = size.node.expr
            if not isinstance(symbol, sympy.Symbol):
                raise FuseworksError(
                    "capturing:user:pt2-derived-dim",
                    place=node.name,
                    index=index,
                    name=node.name,
                    expression=str(symbol),
                )
            if symbol not in names:
                names[symbol] = "batch" if index == 0 and not names else f"dim{len(names)}"
                dims[names[symbol]] = _dim(program, symbol, size)
            shape.append(names[symbol])
        specs.append(InputSpec(name=node.name, dtype=dtype_name(node.meta["val"].dtype), shape=shape))
    return Shapes(specs, dims)


def _dim(program: ExportedProgram, symbol: sympy.Symbol, size: torch.SymInt) -> Dim:
    span = program.range_constraints.get(symbol)
    low = max(1, int(span.lower)) if span is not None and span.lower.is_finite else 1
    serve = int(size.node.hint) if size.node.has_hint() else SIZE_WITHOUT_SAMPLES
    high = int(span.upper) if span is not None and span.upper.is_finite else 0
    if not 0 < high < 1 << 40:  # torch writes "no upper end" as a very large number too
        high = max(torch_workload.SMALLEST_MAX, torch_workload.GROWTH * serve)
    return Dim(serve=[min(max(serve, low), high)], min=low, max=high)


def _renamed(given: Workload, found: Shapes) -> Shapes:
    """The user's names and ranges for the graph's symbols. Raises FuseworksError when they do not fit."""

    def refuse(text: str) -> FuseworksError:
        return FuseworksError("capturing:user:workload-mismatch", place="workload", text=text)

    if len(given.inputs) != len(found.specs):
        raise refuse(f"it has {len(given.inputs)} inputs, the graph has {len(found.specs)}")
    names: dict[str, str] = {}
    for spec, actual in zip(given.inputs, found.specs, strict=True):
        if spec.dtype != actual.dtype or len(spec.shape) != len(actual.shape):
            there = f"in the graph {actual.dtype} {actual.shape}"
            raise refuse(f"input {spec.name!r} is {spec.dtype} {spec.shape}, {there}")
        for wanted, has in zip(spec.shape, actual.shape, strict=True):
            if isinstance(has, int) and wanted != has:
                raise refuse(f"input {spec.name!r} has shape {spec.shape}, in the graph {actual.shape}")
            if isinstance(has, str) and isinstance(wanted, str) and names.setdefault(wanted, has) != has:
                raise refuse(f"dimension {wanted!r} stands for two different ones of the graph")
    dims = {}
    for name, symbol in names.items():
        dim, span = given.dims[name], found.dims[symbol]
        if dim.min < span.min or dim.max > span.max:
            takes = f"[{span.min}, {span.max}]"
            raise refuse(f"{name!r} within [{dim.min}, {dim.max}] is more than the graph takes: {takes}")
        dims[name] = dim
    return Shapes(list(given.inputs), dims)


def _samples(program: ExportedProgram) -> list[torch.Tensor] | None:
    if program.example_inputs is None:
        return None
    leaves = pytree.tree_leaves(program.example_inputs)
    return [leaf.detach().cpu().contiguous() for leaf in leaves if isinstance(leaf, torch.Tensor)] or None


def _examples(program: ExportedProgram, shapes: Shapes, samples: list[torch.Tensor] | None) -> list[torch.Tensor]:
    """What compilers are shown: the saved samples, else zeros (a valid id everywhere) at the sizes of serving."""
    if samples is not None and len(samples) == len(shapes.specs):
        return samples
    sizes = {name: dim.serve[0] for name, dim in shapes.dims.items()}
    values = [node.meta["val"] for node in torch_graph.user_placeholders(program)]
    rows = [
        torch.zeros([1 if isinstance(dim, str) else dim for dim in spec.shape], dtype=value.dtype)
        for spec, value in zip(shapes.specs, values, strict=True)
    ]
    return resized(rows, shapes.specs, sizes)


def _notes(program: ExportedProgram, sampled: bool) -> list[str]:
    notes = [] if sampled else ["The file holds no sample inputs: values are drawn by dtype and table size alone"]
    for write in torch_graph.writes(program):
        if write.kind is not InputKind.USER_INPUT:
            place = _stack_place(write.node)
            raise FuseworksError("capturing:user:mutated-buffer", place=place, buffer=write.target)
        notes.append(f"The model writes into its input {write.target!r}")
    for node in torch_graph.random_nodes(program):
        notes.append(random_note(node, _stack_place(node)))
    return list(dict.fromkeys(notes))


def _stack_place(node: fx.Node | None) -> str | None:
    """The innermost line that the saved graph remembers: the sources themselves are not here."""
    at = frames(node.meta.get("stack_trace") if node is not None else None)
    return f"{Path(at[-1][0]).name}:{at[-1][1]}" if at else None
