"""torchao's own int8 quantization of an exported program, in either way that its documentation gives.

`quantized`: the layers as modules again, `quantize_` with `Int8DynamicActivationInt8WeightConfig`: inputs per row,
weights per output channel. `pt2e_quantized`: PT2E quantization with the `X86InductorQuantizer`, dynamic: inputs as a
whole, unsigned. Both quantize every linear layer with constant weights, and no other operation. Not for ours: `int8`.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

import optimizer.compiling.errors  # noqa: F401
from optimizer.compiling.int8 import linear_layers
from optimizer.errors import FuseworksError
from optimizer.optimizing.graph import Graph
from optimizer.optimizing.matching import ConstantLinear
from optimizer.optimizing.reexport import example_inputs, export_again

aten = torch.ops.aten
TITLE = "torchao"
X86 = frozenset({"x86_64", "AMD64"})


def quantized(exported: ExportedProgram) -> ExportedProgram:
    """Raises FuseworksError `compiling:user:unsupported`, `optimizing:ours:export-again`."""
    with without_warnings():
        from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_
        from torchao.utils import unwrap_tensor_subclass

    graph = Graph.from_exported(exported)
    for layer in _layers(graph):
        _as_module(graph.module, layer)
    graph.module.graph.eliminate_dead_code()
    graph.module.delete_all_unused_submodules()
    graph.module.recompile()
    # what it would set of Inductor is for GPUs, and the process's
    quantize_(graph.module, Int8DynamicActivationInt8WeightConfig(set_inductor_config=False))
    # else the program has weights of a class of torchao's, which AOTInductor does not take
    return export_again(exported, unwrap_tensor_subclass(graph.module))


def pt2e_quantized(exported: ExportedProgram) -> ExportedProgram:
    """Raises FuseworksError `compiling:user:unsupported`, `optimizing:ours:export-again`."""
    if platform.machine() not in X86:
        text = f"its X86InductorQuantizer is for x86-64, and this processor is {platform.machine()}"
        raise FuseworksError("compiling:user:unsupported", engine=TITLE, text=text)
    with without_warnings():
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
        from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
            X86InductorQuantizer,
            get_default_x86_inductor_quantization_config,
        )

    _layers(Graph.from_exported(exported))
    quantizer = X86InductorQuantizer().set_global(get_default_x86_inductor_quantization_config(is_dynamic=True))
    prepared = prepare_pt2e(exported.module(), quantizer)
    args, kwargs = example_inputs(exported)
    prepared(*args, **kwargs)  # nothing is calibrated for dynamic quantization; observers must have been called once
    return export_again(exported, convert_pt2e(prepared))


@contextmanager
def without_warnings() -> Iterator[None]:
    """Its import warns of each library for a GPU that is not there, and of how it uses torch: nobody's concern here."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _layers(graph: Graph) -> list[ConstantLinear]:
    """What was an `nn.Linear`, or the same by `F.linear`."""
    found = [layer for layer in linear_layers(graph) if graph.is_op(layer.node, aten.linear.default)]
    if not found:
        text = "it has no linear layer with constant float32 weights"
        raise FuseworksError("compiling:user:unsupported", engine=TITLE, text=text)
    return found


def _as_module(module: fx.GraphModule, layer: ConstantLinear) -> None:
    """Puts an `nn.Linear` in the place of a call of the operation."""
    outputs, inputs = layer.weight.shape
    linear = torch.nn.Linear(inputs, outputs, bias=layer.bias is not None, device="meta")
    linear.weight = _parameter(layer.weight)
    linear.bias = None if layer.bias is None else _parameter(layer.bias)
    name = f"{layer.node.name}_module"
    while hasattr(module, name):  # the user's own, which holds other weights
        name += "_"
    module.add_submodule(name, linear)
    with module.graph.inserting_before(layer.node):
        call = module.graph.call_module(name, (layer.input,))
    call.meta = dict(layer.node.meta)
    layer.node.replace_all_uses_with(call)
    module.graph.erase_node(layer.node)


def _parameter(value: torch.Tensor) -> Any:
    return torch.nn.Parameter(value.detach().contiguous(), requires_grad=False)
