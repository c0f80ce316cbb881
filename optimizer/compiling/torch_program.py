"""Exported programs: loaded with the library's own operations known, lowered for a CPU, called by their flat inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

import kernels
from optimizer.compiling.base import Context
from optimizer.compiling.torch_contender import Staged, TorchContender
from optimizer.errors import FuseworksError


def load_program(path: Path) -> ExportedProgram:
    """Raises FuseworksError `compiling:ours:artifact`: what arrives here was saved by a capture or a rewrite."""
    kernels.load()
    try:
        return torch.export.load(path)
    except Exception as error:  # the loader raises many kinds, and a child must answer for its file
        raise FuseworksError("compiling:ours:artifact", text=f"{type(error).__name__}: {error}"[:1000]) from error


def lowered(exported: ExportedProgram, context: Context) -> ExportedProgram:
    """For a CPU: no operation of ours left that an engine cannot look into. A GPU keeps them: they launch a kernel.

    On a GPU all of the program is there, constants made inside the graph too.
    """
    if context.device != "cpu":
        from torch.export.passes import move_to_device_pass

        return move_to_device_pass(exported, context.device)
    from kernels.lowering import lower_to_reference

    return lower_to_reference(exported)


def contender_of(function: Any, exported: ExportedProgram, context: Context, **more: Any) -> TorchContender:
    """A contender that calls `function` with the program's own argument structure."""
    return TorchContender(
        function,
        context.workload,
        device=context.device,
        inference_precision=context.precision_name,
        in_spec=exported.call_spec.in_spec,
        **more,
    )


def example_call(exported: ExportedProgram, context: Context, sizes: dict[str, int]) -> Staged:
    """Arguments of the given sizes for making an engine compile."""
    from optimizer.compiling.base import plain_inputs

    staging = TorchContender(lambda: None, context.workload, device=context.device, in_spec=exported.call_spec.in_spec)
    return staging.stage(plain_inputs(context.workload, sizes))


def output_count(exported: ExportedProgram) -> int:
    """Tensors that the program hands back, flattened."""
    output = next(n for n in reversed(exported.graph_module.graph.nodes) if n.op == "output")
    user = set(exported.graph_signature.user_outputs)
    leaves = [n for n in pytree.tree_leaves(output.args) if isinstance(n, torch.fx.Node)]
    return sum(isinstance(n.meta.get("val"), torch.Tensor) and n.name in user for n in leaves)


def pin_precision() -> None:
    """float32 means float32: no TensorFloat-32 on a GPU, no bfloat16 passes inside a float32 GEMM on a CPU."""
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
