"""Removes operations and weights that no output depends on."""

from __future__ import annotations

from typing import Any, ClassVar

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from optimizer.optimizing.onnx_passes.base import OnnxPass, register_onnx_pass


@register_onnx_pass
class DeadCode(OnnxPass):
    name: ClassVar[str] = "dead_code"
    title: ClassVar[str] = "Remove dead code"
    summary: ClassVar[str] = "Removes operations and weights that no output depends on."
    order: ClassVar[int] = 30

    def apply(self, model: ir.Model, options: Any) -> None:
        RemoveUnusedNodesPass()(model)

    def reasons(self, nodes: list[ir.Node]) -> dict[ir.Node, str]:
        return {node: f"no output depends on this {node.op_type}" for node in nodes}
