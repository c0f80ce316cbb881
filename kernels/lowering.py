"""Lowers fused operations: for a CPU each becomes its reference, so that no backend meets an opaque call.

Inductor, AOTInductor, ONNX and OpenVINO then see plain aten operations and fuse them themselves. Not for a GPU: there
the operation stays and launches its Triton kernel.
"""

from __future__ import annotations

import torch
from torch.export import ExportedProgram

from kernels import KERNELS
from kernels.spec import NAMESPACE


def lower_to_reference(exported: ExportedProgram) -> ExportedProgram:
    """The program with every `fuseworks` operation replaced by its reference; unchanged when it holds none.

    `run_decompositions` with a table of ours alone leaves the aten operations undecomposed; what it changes besides is
    that in-place operations become functional.
    """
    if not any(is_fused(node) for module in _modules(exported) for node in module.graph.nodes):
        return exported
    table = {kernel.op: kernel.run_reference if kernel.mutates else kernel.reference for kernel in KERNELS}
    return exported.run_decompositions(table)


def is_fused(node: torch.fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target.namespace == NAMESPACE


def _modules(exported: ExportedProgram) -> list[torch.fx.GraphModule]:
    return [m for m in exported.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
