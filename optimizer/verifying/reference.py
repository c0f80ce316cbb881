"""The float64 reference of an exported graph: the graph itself is rewritten, so that nothing in it stays float32.

`.double()` on a module leaves dtype arguments, constants and casts behind (NaN or a failure on hand-written attention).
Refuses graphs that read a float's bits (`view.dtype`): those mean something else in float64.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

import optimizer.verifying.errors  # noqa: F401  (fills the catalogue)
from optimizer.errors import FuseworksError

LOW = frozenset({torch.float32, torch.float16, torch.bfloat16})
BITCASTS = frozenset({torch.ops.aten.view.dtype})
DTYPE_ASSERTIONS = frozenset({torch.ops.aten._assert_tensor_metadata.default})
AUTOCAST = torch.ops.higher_order.wrap_with_autocast


class TorchReference:
    """A contender that answers in float64. Made from a `.pt2`."""

    def __init__(self, path: Path) -> None:
        self.module = in_float64(load_lowered(path))
        self.ranks = [
            node.meta["val"].ndim if isinstance(node.meta.get("val"), torch.Tensor) else None
            for node in self.module.graph.nodes
            if node.op == "placeholder"
        ]

    def stage(self, arrays: list[np.ndarray]) -> list[torch.Tensor]:
        tensors = []
        for array, rank in zip(arrays, self.ranks, strict=True):
            tensor = torch.from_numpy(np.array(array, dtype=np.float64 if array.dtype.kind == "f" else None))
            # the wire carries a scalar as one element
            tensors.append(tensor.reshape(()) if rank == 0 else tensor)
        return tensors

    def call(self, native: list[torch.Tensor]) -> Any:
        # integers divided, or multiplied by a number, take the default dtype
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            with torch.no_grad():
                return self.module(*native)
        finally:
            torch.set_default_dtype(before)

    def outputs(self, native: Any) -> list[np.ndarray]:
        return [leaf.detach().cpu().numpy() for leaf in pytree.tree_leaves(native) if isinstance(leaf, torch.Tensor)]

    def inputs_after(self, native: list[torch.Tensor]) -> list[np.ndarray]:
        return [tensor.numpy() for tensor in native]


def load_lowered(path: Path) -> GraphModule:
    """The graph with Fuseworks' own operations replaced by their references."""
    import kernels
    from kernels.lowering import lower_to_reference

    kernels.load()
    module = lower_to_reference(torch.export.load(path)).module()
    assert isinstance(module, GraphModule)
    return module


def in_float64(module: GraphModule) -> GraphModule:
    """Rewrites `module` in place. Raises FuseworksError (`verifying:user:no-reference`) naming the node."""
    for graph_module in [m for m in module.modules() if isinstance(m, GraphModule)]:
        for node in list(graph_module.graph.nodes):
            if node.op == "call_function":
                _raise_precision(node)
        graph_module.graph.lint()
        graph_module.recompile()
    module.double()
    for owner in module.modules():
        for name, value in list(vars(owner).items()):
            if isinstance(value, torch.Tensor) and value.dtype in LOW:
                setattr(owner, name, value.double())
    return module


def _raise_precision(node: Node) -> None:
    if node.target in DTYPE_ASSERTIONS:
        node.graph.erase_node(node)
        return
    if node.target in BITCASTS:
        raise FuseworksError(
            "verifying:user:no-reference", place=node.name, text="it reads a float's bits as another type"
        )
    node.args = pytree.tree_map(_raised, node.args)
    node.kwargs = pytree.tree_map(_raised, node.kwargs)
    if node.target is AUTOCAST:
        # device type, dtype, enabled, cache_enabled, submodule, operands
        node.args = (*node.args[:1], None, False, *node.args[3:])
    elif _creates_default_dtype(node):
        node.kwargs = {**node.kwargs, "dtype": torch.float64}


def _raised(value: Any) -> Any:
    if isinstance(value, torch.dtype) and value in LOW:
        return torch.float64
    return value


def _creates_default_dtype(node: Node) -> bool:
    """A creation (`zeros`, `randn`, ...) without a dtype, whose result was float32 by default."""
    schema = getattr(node.target, "_schema", None)
    value = node.meta.get("val")
    if schema is None or not isinstance(value, torch.Tensor) or value.dtype not in LOW:
        return False
    if not any(argument.name == "dtype" and argument.kwarg_only for argument in schema.arguments):
        return False
    tensors = [a for a in node.all_input_nodes if isinstance(a.meta.get("val"), torch.Tensor)]
    return not tensors and node.kwargs.get("dtype") is None
