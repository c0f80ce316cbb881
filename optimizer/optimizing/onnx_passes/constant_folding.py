"""Computes once what depends on constants only, and drops operations that change nothing.

Leaves what draws random numbers and what would grow beyond the limits.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import onnx_ir as ir
from onnxscript.optimizer import fold_constants_ir
from pydantic import Field

from optimizer.optimizing.onnx_passes.base import OnnxPass, PassOptions, node_label, register_onnx_pass
from optimizer.result import Site

RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)
# Expanding a scalar to a tensor costs more to read than to compute.
LEFT = frozenset({"Constant", "ConstantOfShape", "Expand"})


@register_onnx_pass
class ConstantFolding(OnnxPass):
    name: ClassVar[str] = "constant_folding"
    title: ClassVar[str] = "Fold constants"
    summary: ClassVar[str] = "Computes once what depends on constants only."
    order: ClassVar[int] = 10

    class Options(PassOptions):
        max_elements: int = Field(
            default=1 << 22, ge=1, description="Operations with an input or a result of more elements are left."
        )

    def apply(self, model: ir.Model, options: Any) -> None:
        fold_constants_ir(
            model,
            onnx_shape_inference=True,
            input_size_limit=options.max_elements,
            output_size_limit=options.max_elements,
        )

    def reasons(self, nodes: list[ir.Node]) -> dict[ir.Node, str]:
        constant: set[ir.Value] = set()
        found = {}
        for node in nodes:
            given = [v for v in node.inputs if v is not None]
            if node.op_type == "Constant" or (given and all(v in constant or _is_constant(v) for v in given)):
                constant.update(node.outputs)
                found[node] = f"{node.op_type} was computed once"
            else:
                found[node] = f"{node.op_type} changed nothing, or its result follows from shapes alone"
        return found

    def refusals(self, model: ir.Model, options: Any) -> list[Site]:
        found = []
        for node in model.graph.all_nodes():
            given = [v for v in node.inputs if v is not None]
            if node.op_type in RANDOM:
                found.append(Site(node=node_label(node), reason=f"{node.op_type} draws random numbers"))
            elif given and node.op_type not in LEFT and all(_is_constant(v) for v in given):
                largest = max((_elements(v) for v in (*given, *node.outputs)), default=0)
                why = (
                    f"it holds {largest} elements and {options.max_elements} are allowed"
                    if largest > options.max_elements
                    else "it cannot be evaluated by ONNX's own reference"
                )
                found.append(Site(node=node_label(node), reason=f"{node.op_type} of constants was left: {why}"))
        return found


def _is_constant(value: ir.Value) -> bool:
    return value.const_value is not None and not value.is_graph_input()


def _elements(value: ir.Value) -> int:
    if value.const_value is not None:
        return int(value.const_value.size)
    if value.shape is None or not all(isinstance(d, int) for d in value.shape):
        return 0
    return math.prod(d for d in value.shape if isinstance(d, int))
