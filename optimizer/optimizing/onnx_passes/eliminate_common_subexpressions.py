"""Computes once what is computed twice from the same values: equal operations, and equal constants before them."""

from __future__ import annotations

from typing import Any, ClassVar

import onnx_ir as ir
from onnx_ir.passes.common import CommonSubexpressionEliminationPass, DeduplicateInitializersPass

from optimizer.optimizing.onnx_passes.base import OnnxPass, register_onnx_pass


@register_onnx_pass
class EliminateCommonSubexpressions(OnnxPass):
    name: ClassVar[str] = "eliminate_common_subexpressions"
    title: ClassVar[str] = "Eliminate common subexpressions"
    summary: ClassVar[str] = "Computes once what is computed twice from the same values."
    order: ClassVar[int] = 20

    def apply(self, model: ir.Model, options: Any) -> None:
        DeduplicateInitializersPass()(model)
        CommonSubexpressionEliminationPass()(model)

    def reasons(self, nodes: list[ir.Node]) -> dict[ir.Node, str]:
        return {node: f"{node.op_type} repeats another one with the same inputs" for node in nodes}
