"""Captures a `.py` or `.zip` upload: builds the module, calls it, exports it, checks the graph against it.

Not for `.pt2` (torch_exported) and `.onnx` (onnx_model). Runs the user's code: in a child only.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from optimizer import plain_yaml
from optimizer.capturing import fixed_arguments, torch_graph, torch_workload
from optimizer.capturing.torch_export import Refusal, explained, export
from optimizer.capturing.torch_ids import Bounds, id_bounds
from optimizer.capturing.torch_inputs import argument_names, check_drawn, output_leaves, sample_inputs
from optimizer.capturing.torch_module import UserModel, blame
from optimizer.capturing.torch_places import Sources
from optimizer.capturing.torch_workload import Shapes
from optimizer.capturing.workload_document import parse_workload
from optimizer.errors import FuseworksError
from optimizer.spec import Dim, Workload

# The graph and the module do the same operations in float32: only their order within a fused kernel may differ.
LARGEST_ERROR = 1e-3


@dataclass
class Captured:
    """A program under the workload's names, with what the inspection says about it."""

    program: ExportedProgram
    workload: Workload
    outputs: list[str]
    notes: list[str] = field(default_factory=list)
    id_rows: dict[str, list[int | None]] = field(default_factory=dict)


def capture_upload(user: UserModel, workload: Any, seed: int) -> Captured:
    """Raises FuseworksError: the model's fault, at the user's line."""
    module, sources = user.module, user.sources
    given, at = given_workload(user, workload)
    torch.manual_seed(seed + 1)
    inputs = sample_inputs(user)
    buffers = {name: tensor.clone() for name, tensor in module.named_buffers()}
    output_names, outputs = _call(user, inputs)
    changed = [name for name, tensor in module.named_buffers() if not _equal(tensor, buffers[name])]
    names = argument_names(module, len(inputs))
    notes: list[str] = []
    if given is not None:
        shapes = torch_workload.given_shapes(given, names, inputs, at)
        program = _export_as_asked(user, inputs, shapes)
    else:
        shapes, program, notes = _export_as_inferred(user, names, inputs)
    torch_graph.normalise(program, [spec.name for spec in shapes.specs])
    notes += fixed_arguments.notes(module, user.fixed)
    notes += _written_notes(program, sources, changed) + _item_notes(program, sources)
    random = _random_notes(program, sources)
    notes += random + _value_notes(output_names, outputs)
    if not random:
        _check_repeatable(user, inputs, outputs)
        _check_graph(program, user, [inputs, sample_inputs(user)], output_names)
    assert program.example_inputs is not None
    bounds = id_bounds(program, list(program.example_inputs[0]))
    filled = torch_workload.filled(given, shapes, inputs, bounds, at)
    check_drawn(filled, module, sources, seed)
    return Captured(program, filled, output_names, notes, id_rows(filled, bounds))


def id_rows(workload: Workload, bounds: dict[int, Bounds]) -> dict[str, list[int | None]]:
    """By input: the rows of the table that each column of its last dimension indexes."""
    return {workload.inputs[index].name: known.below for index, known in bounds.items()}


def given_workload(user: UserModel, workload: Any) -> tuple[Workload | None, str]:
    """The caller's workload, else workload.yaml, else get_workloads(), else None."""
    if workload is not None:
        return parse_workload(workload, "workload"), "workload"
    file = user.file("workload.yaml") or user.file("workload.yml")
    if file is not None:
        try:
            document = plain_yaml.read(file.read_text())
        except (plain_yaml.NotPlain, UnicodeDecodeError) as error:
            raise FuseworksError("capturing:user:bad-workload", place=file.name, text=str(error)) from error
        return parse_workload(document, file.name), file.name
    function = getattr(user.namespace, "get_workloads", None)
    if function is None:
        return None, user.sources.shown
    code = getattr(function, "__code__", None)
    at = (user.sources.place(code.co_filename, code.co_firstlineno) if code else None) or user.sources.shown
    return parse_workload(user.call("get_workloads"), at), at


def _call(user: UserModel, inputs: list[torch.Tensor]) -> tuple[list[str], list[torch.Tensor]]:
    code = getattr(inspect.unwrap(user.module.forward), "__code__", None)
    defined = user.sources.place(code.co_filename, code.co_firstlineno) if code else None
    try:
        with torch.no_grad():
            outputs = user.module(*[tensor.clone() for tensor in inputs])
    except Exception as error:
        blame("capturing:user:forward-failed", error, user.sources, defined)
    return output_leaves(outputs, defined or user.sources.shown)


def _export_as_asked(user: UserModel, inputs: list[torch.Tensor], shapes: Shapes) -> ExportedProgram:
    try:
        return export(user.module, inputs, shapes.specs, shapes.dims, user.sources)
    except Refusal as refusal:
        if not shapes.dims:
            raise explained(refusal, user.sources) from refusal.error
        names = [f"input{i}" for i in range(len(inputs))]
        static = torch_workload.static_shapes(names, inputs)
        try:
            export(user.module, inputs, static.specs, {}, user.sources)
        except Refusal as worse:
            raise explained(worse, user.sources) from worse.error
        advice = "Make the code work for every size in the range, or write the size as a number in the workload."
        if refusal.ranges and not refusal.fixed:
            advice = "Declare this range in the workload's dims, or make the code work for every size."
        raise FuseworksError(
            "capturing:user:dim-refused",
            place=refusal.place or user.sources.shown,
            detail=str(refusal.error)[:8000],
            dims=", ".join(shapes.dims),
            text=refusal.reason,
            advice=advice,
        ) from refusal.error


def _export_as_inferred(
    user: UserModel, names: list[str], inputs: list[torch.Tensor]
) -> tuple[Shapes, ExportedProgram, list[str]]:
    """Batch dynamic, else batch within what torch.export suggests, else static with a note that says why."""
    shapes = torch_workload.inferred_shapes(names, inputs)
    reason = "the inputs have no common first dimension"
    place = None
    for _ in range(2 if shapes.dims else 0):
        try:
            program = export(user.module, inputs, shapes.specs, shapes.dims, user.sources)
            return shapes, program, []
        except Refusal as refusal:
            reason, place = refusal.reason, refusal.place
            narrowed = _narrowed(shapes, refusal)
            if narrowed is None:
                break
            shapes = narrowed
    static = torch_workload.static_shapes(names, inputs)
    try:
        program = export(user.module, inputs, static.specs, {}, user.sources)
    except Refusal as refusal:
        raise explained(refusal, user.sources) from refusal.error
    where = f" ({place})" if place else ""
    return static, program, [f"Shapes are static, the batch size too: {reason}{where}"]


def _narrowed(shapes: Shapes, refusal: Refusal) -> Shapes | None:
    if refusal.fixed or set(refusal.ranges) != {"batch"}:
        return None
    low, high = refusal.ranges["batch"]
    dim = shapes.dims["batch"]
    low, high, size = max(low or 1, dim.min), min(high or dim.max, dim.max), dim.serve[0]
    return Shapes(shapes.specs, {"batch": Dim(serve=[size], min=low, max=high)}) if low <= size <= high else None


def _written_notes(program: ExportedProgram, sources: Sources, changed: list[str]) -> list[str]:
    notes = []
    for write in torch_graph.writes(program):
        at = node_place(write.node, sources)
        if write.kind is not InputKind.USER_INPUT:
            raise FuseworksError("capturing:user:mutated-buffer", place=at or sources.shown, buffer=write.target)
        notes.append(f"The model writes into its input {write.target!r}" + (f" ({at})" if at else ""))
    if changed:
        raise FuseworksError("capturing:user:mutated-buffer", place=sources.shown, buffer=changed[0])
    return list(dict.fromkeys(notes))


def node_place(node: fx.Node | None, sources: Sources) -> str | None:
    return sources.of_text(node.meta.get("stack_trace")) if node is not None else None


def _random_notes(program: ExportedProgram, sources: Sources) -> list[str]:
    found: dict[str, None] = {}
    for node in torch_graph.random_nodes(program):
        found[random_note(node, node_place(node, sources))] = None
    return list(found)


def _item_notes(program: ExportedProgram, sources: Sources) -> list[str]:
    for node in torch_graph.call_nodes(program.graph_module):
        if torch_graph.operation_name(node) in torch_graph.READS_VALUES:
            at = node_place(node, sources)
            where = f" ({at})" if at else ""
            return [f"Values of tensors become Python numbers{where}: compilers may refuse it or gain little"]
    return []


def random_note(node: fx.Node, at: str | None) -> str:
    return f"Draws random numbers in inference: {torch_graph.operation_name(node)}" + (f" ({at})" if at else "")


def _value_notes(names: list[str], outputs: list[torch.Tensor]) -> list[str]:
    notes = []
    for name, tensor in zip(names, outputs, strict=True):
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            what = "NaN" if bool(tensor.isnan().any()) else "infinities"
            notes.append(f"Output {name!r} holds {what} at the model's own sample inputs")
    return notes


def _check_repeatable(user: UserModel, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
    _, again = _call(user, inputs)
    if len(again) != len(outputs) or any(error_of(a, b) > LARGEST_ERROR for a, b in zip(again, outputs, strict=True)):
        code = getattr(inspect.unwrap(user.module.forward), "__code__", None)
        at = user.sources.place(code.co_filename, code.co_firstlineno) if code else None
        raise FuseworksError("capturing:user:not-repeatable", place=at or user.sources.shown)


def _check_graph(
    program: ExportedProgram, user: UserModel, input_sets: list[list[torch.Tensor]], names: list[str]
) -> None:
    """The graph against the module, on two input sets: a value baked in while tracing shows on the second."""
    graph = program.module(check_guards=False)
    for inputs in input_sets:
        _, wanted = _call(user, inputs)
        with torch.no_grad():
            got = graph(*[tensor.clone() for tensor in inputs])
        leaves = [got] if isinstance(got, torch.Tensor) else list(got)
        for name, a, b in zip(names, leaves, wanted, strict=True):
            error = error_of(a, b)
            if error > LARGEST_ERROR:
                context = {"name": name, "error": f"{error:.2g}"}
                raise FuseworksError("capturing:user:export-differs", place=user.sources.shown, **context)


def error_of(a: torch.Tensor, b: torch.Tensor) -> float:
    """Relative to the spread of `b`; equal NaN and infinities count as equal."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf")
    a, b = a.double(), b.double()
    same = (a == b) | (a.isnan() & b.isnan())
    if bool(same.all()):
        return 0.0
    finite = b[b.isfinite()]
    spread = float((finite - finite.mean()).norm()) or float(finite.norm()) or 1.0
    difference = torch.where(same, 0.0, a - b).norm()
    return float(difference) / spread if bool(difference.isfinite()) else float("inf")


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return error_of(a, b) == 0.0
