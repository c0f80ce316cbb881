"""Captures a training step of a `.py` or `.zip` upload: model and loss become one graph, in train mode.

The module defines the loss, a function of the model's output and the targets, and `get_targets()`, which returns
samples of these. Dropout is switched off: gradients of random masks cannot be compared. The step is of one size: the
first that each dimension serves. Not for `.pt2` and `.onnx`, which hold no loss. Runs the user's code: in a child only.
"""

from __future__ import annotations

import inspect
import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from optimizer.capturing import torch_graph, torch_workload
from optimizer.capturing.torch_export import Refusal, explained, export
from optimizer.capturing.torch_ids import id_bounds
from optimizer.capturing.torch_inputs import argument_names, check_drawn, resized, sample_inputs
from optimizer.capturing.torch_module import UserModel, blame
from optimizer.capturing.torch_upload import LARGEST_ERROR, Captured, error_of, id_rows, node_place
from optimizer.compiling.step.runtime import DESIGN, Design, graph_of
from optimizer.errors import FuseworksError
from optimizer.spec import Workload

MODEL = "model."  # parameters of the model within a step


class LossOf(torch.nn.Module):
    """A model and its loss: inputs, then targets; the loss."""

    def __init__(self, model: torch.nn.Module, loss: Callable[..., Any], inputs: int) -> None:
        super().__init__()
        self.model = model
        self.loss = loss
        self.inputs = inputs

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.loss(self.model(*tensors[: self.inputs]), *tensors[self.inputs :])


def step_module(user: UserModel, workload: Workload) -> LossOf:
    """In train mode, without dropout. Raises FuseworksError: no such loss, or one that takes no output."""
    assert workload.loss is not None
    loss = getattr(user.namespace, workload.loss, None)
    if not callable(loss):
        what = "is not defined in the module" if loss is None else f"is of type {type(loss).__name__}, not a function"
        raise _signature(user, workload.loss, what)
    targets = len(target_names(user, workload.loss, loss))
    user.module.train()
    without_dropout(user.module)
    return LossOf(user.module, loss, len(workload.inputs) - targets)


def target_names(user: UserModel, name: str, loss: Callable[..., Any]) -> list[str]:
    """The loss's parameters behind the model's output, as far as they have no default."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        given = [p for p in inspect.signature(loss).parameters.values() if p.kind in kinds and p.default is p.empty]
    except (TypeError, ValueError):
        raise _signature(user, name, "does not say what it takes") from None
    if not given:
        raise _signature(user, name, "takes nothing, and the model's output is what it must take")
    return [parameter.name for parameter in given[1:]]


def without_dropout(module: torch.nn.Module) -> bool:
    """Whether any was on. Dropout as a layer, and within attention and recurrent layers."""
    found = False
    for part in module.modules():
        if isinstance(part, torch.nn.modules.dropout._DropoutNd):
            found, part.p = found or part.p > 0, 0.0
        elif isinstance(part, (torch.nn.MultiheadAttention, torch.nn.RNNBase)):
            found, part.dropout = found or part.dropout > 0, 0.0
    return found


def capture_step(user: UserModel, given: Workload, at: str, seed: int) -> tuple[Captured, Design]:
    """Raises FuseworksError: the model's fault, at the user's line. The user's module is left as it was built."""
    assert given.loss is not None and given.optimizer is not None
    dropout = without_dropout(user.module)
    step = step_module(user, given)
    torch.manual_seed(seed + 1)
    samples = sample_inputs(user)
    names = argument_names(user.module, len(samples))
    targets = target_names(user, given.loss, step.loss)
    if targets:
        samples += sample_inputs(user, "get_targets", targets)
        names += targets
    shapes = torch_workload.given_shapes(given, names, samples, at)
    sizes = given.sizes()
    fixed = [spec.model_copy(update={"shape": list(given.shape_of(spec, sizes))}) for spec in shapes.specs]
    samples = resized(samples, shapes.specs, sizes)
    start = {name: buffer.clone() for name, buffer in step.named_buffers()}
    gradients = _try_out(step, user, given.loss, samples)
    written = [name for name, buffer in step.named_buffers() if not torch.equal(buffer, start[name])]
    _put_back(step, start)
    try:
        program = export(step, samples, fixed, {}, user.sources, grad=True)
    except Refusal as refusal:
        raise explained(refusal, user.sources) from refusal.error
    torch_graph.normalise(program, [spec.name for spec in fixed])
    _refuse_random(program, user)
    design = _design(step, given, written)
    state = {name: tensor.clone() for name, tensor in program.state_dict.items() if name in written}
    _check_graph(program, design, samples, gradients, user)
    bounds = id_bounds(program, samples)
    for name, tensor in state.items():  # each call of the graph has written into the program's own buffers
        program.state_dict[name].copy_(tensor)
    static = given.model_copy(update={"dims": {}, "precisions": ["float32"]})
    filled = torch_workload.filled(static, torch_workload.Shapes(fixed, {}), samples, bounds, at)
    check_drawn(filled, step, user.sources, seed)
    _put_back(step, start)
    captured = Captured(program, filled, ["loss"], _notes(given, dropout), id_rows(filled, bounds))
    return captured, design


def save_step(program: ExportedProgram, design: Design, path: Path) -> None:
    """Raises FuseworksError."""
    try:
        with path.open("w+b") as file:
            torch.export.save(program, file, extra_files={DESIGN: json.dumps(design)})
    except Exception as error:  # the serializer raises many kinds; each is a gap of ours or of torch's
        detail = "".join(traceback.format_exception(error))[-8000:]
        raise FuseworksError("capturing:ours:save", text=str(error)[:500], detail=detail) from error


def _try_out(step: LossOf, user: UserModel, name: str, samples: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """The gradients of one step. Raises FuseworksError where there is no loss to train with."""
    trained = {one: p for one, p in step.named_parameters() if p.requires_grad}
    try:
        with torch.enable_grad():
            loss = step(*[tensor.clone() for tensor in samples])
            what = _no_loss(loss)
            if what is None:
                found = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
    except Exception as error:
        blame("capturing:user:loss-failed", error, user.sources)
    if what is None and all(gradient is None for gradient in found):
        what = "independent of every parameter"
    if what is not None:
        raise FuseworksError("capturing:user:bad-loss", place=_place(user, step.loss), name=name, what=what)
    return {one: gradient for one, gradient in zip(trained, found, strict=True) if gradient is not None}


def _no_loss(loss: Any) -> str | None:
    if not isinstance(loss, torch.Tensor):
        return f"a {type(loss).__name__}"
    if loss.numel() != 1 or not loss.is_floating_point():
        return f"a tensor of {str(loss.dtype).removeprefix('torch.')} and shape {list(loss.shape)}"
    if not loss.requires_grad:
        return "without a gradient"
    if not bool(loss.isfinite().all()):
        return "not finite at the module's own samples"
    return None


def _refuse_random(program: ExportedProgram, user: UserModel) -> None:
    for node in torch_graph.random_nodes(program):
        name = torch_graph.operation_name(node)
        raise FuseworksError("capturing:user:random-step", place=node_place(node, user.sources), operation=name)


def _check_graph(
    program: ExportedProgram,
    design: Design,
    samples: list[torch.Tensor],
    gradients: dict[str, torch.Tensor],
    user: UserModel,
) -> None:
    """The graph's gradients against the module's."""
    graph = graph_of(program, design)
    with torch.enable_grad():
        loss = graph(*[tensor.clone() for tensor in samples])[0]
        named = {name: graph.get_parameter(name) for name in gradients}
        found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    pooled = sum(float(g.double().square().sum()) for g in gradients.values()) ** 0.5
    for (name, wanted), got in zip(gradients.items(), found, strict=True):
        error = error_of(got, wanted) if got is not None else 1.0
        if error > LARGEST_ERROR and (got is None or float((got - wanted).double().norm()) > LARGEST_ERROR * pooled):
            context = {"name": f"gradient of {name.removeprefix(MODEL)}", "error": f"{error:.2g}"}
            raise FuseworksError("capturing:user:export-differs", place=user.sources.shown, **context)


def _put_back(module: torch.nn.Module, start: dict[str, torch.Tensor]) -> None:
    with torch.no_grad():
        for name, buffer in module.named_buffers():
            if name in start:
                buffer.copy_(start[name])


def _design(step: LossOf, given: Workload, written: list[str]) -> Design:
    assert given.optimizer is not None
    names: dict[int, list[str]] = {}
    for name, parameter in step.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return {
        "loss": given.loss,
        "optimizer": given.optimizer.model_dump(),
        "inputs": step.inputs,
        "parameters": [name for name, p in step.named_parameters() if p.requires_grad],
        "buffers": written,
        "ties": [shared for shared in names.values() if len(shared) > 1],
        "update": "loop",
        "rows": [],
    }


def _notes(given: Workload, dropout: bool) -> list[str]:
    assert given.optimizer is not None
    notes = [f"Captured as a training step: loss {given.loss!r}, {given.optimizer.name} with lr {given.optimizer.lr:g}"]
    if dropout:
        notes.append("Dropout is switched off, in the original too: gradients of random masks cannot be compared")
    if given.dims:
        sizes = ", ".join(f"{name} = {size}" for name, size in given.sizes().items())
        notes.append(f"The step is of one size: {sizes}")
    return notes


def _place(user: UserModel, function: Any) -> str | None:
    code = getattr(function, "__code__", None)
    return user.sources.place(code.co_filename, code.co_firstlineno) if code else user.sources.shown


def _signature(user: UserModel, name: str, what: str) -> FuseworksError:
    place = _place(user, getattr(user.namespace, name, None))
    return FuseworksError("capturing:user:loss-signature", place=place or user.sources.shown, name=name, what=what)
