"""Which operations of a graph compute in bfloat16, and where values are cast for that. Pure: it changes no graph.

Matrix products, convolutions, attention and table look-ups take bfloat16. What merely moves or combines values between
them goes on in the dtype that it gets; after the last of them it is float32, because a sigmoid near 0.5 has a step of
0.004 in bfloat16. Everything else, norms, softmax and reductions first of all, is computed in float32; so is what
rounds to int8, where layers were rewritten to that before.

Asked by the rewrite (`bfloat16`) and by what measures its error (`optimizing.precisions.swaps`), so that both compute
alike.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import fx
from torch.utils import _pytree as pytree

from optimizer.compiling.int8 import rounding_of

LINEARS = frozenset({"linear", "addmm", "mm", "baddbmm", "addbmm"})
COMPUTE = LINEARS | {
    "matmul", "bmm", "einsum", "mv", "bilinear",
    "conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "embedding", "embedding_bag", "_embedding_bag", "scaled_dot_product_attention",
}  # fmt: skip
# Ops that carry values on: reading, shaping and combining. Their result is bfloat16 when all they combine is.
CARRY = frozenset({
    "view", "reshape", "permute", "transpose", "t", "unsqueeze", "squeeze", "expand", "expand_as", "repeat",
    "flatten", "unflatten", "slice", "select", "narrow", "index", "index_select", "gather", "split",
    "split_with_sizes", "chunk", "unbind", "getitem", "cat", "stack", "contiguous", "clone", "alias", "detach",
    "movedim", "swapaxes", "flip", "roll", "pad", "constant_pad_nd", "tril", "triu", "diagonal", "dropout",
    "view_as", "reshape_as", "_unsafe_view", "numpy_T", "add", "sub", "mul", "div", "rsub", "neg", "abs",
    "relu", "gelu", "silu", "tanh", "sigmoid", "leaky_relu", "elu", "hardtanh", "hardswish", "clamp",
    "clamp_min", "clamp_max", "maximum", "minimum", "where", "masked_fill", "max_pool1d", "max_pool2d", "amax",
    "amin",
})  # fmt: skip
BFLOAT16 = torch.bfloat16
FLOAT32 = torch.float32


@dataclass(frozen=True)
class Marks:
    """`low`: nodes whose float32 values become bfloat16. `wanted`: what a node takes its float32 inputs in; one that is
    not named takes them as they come."""

    low: set[fx.Node]
    wanted: dict[fx.Node, torch.dtype]

    @property
    def computing(self) -> list[fx.Node]:
        return [node for node, dtype in self.wanted.items() if dtype is BFLOAT16]

    def casts(self, node: fx.Node) -> dict[fx.Node, torch.dtype]:
        """Which of its inputs have to be cast, and to what."""
        dtype = self.wanted.get(node)
        if dtype is None:
            return {}
        floats = [given for given in node.all_input_nodes if is_float32(given)]
        return {given: dtype for given in floats if (given in self.low) != (dtype is BFLOAT16)}


def mark(nodes: fx.Graph, keep_ops: Collection[str] = (), kept: Collection[fx.Node] = ()) -> Marks:
    """`keep_ops` and `kept` stay float32."""
    marks = Marks(set(), {})
    feeding, exact = _feeding(nodes, keep_ops, kept), rounding_of(nodes)
    for node in nodes.nodes:
        inputs = [given for given in node.all_input_nodes if is_float32(given)]
        if node.op != "call_function" or not inputs:
            continue
        name, stays = operation(node), node in kept or operation(node) in keep_ops
        low = False
        if name == "getitem":  # of several results: they cannot be cast before they are taken apart
            low = inputs[0] in marks.low
        elif name in COMPUTE and not stays:
            marks.wanted[node], low = BFLOAT16, True
        elif name in CARRY and not stays and node in feeding and node not in exact:
            # a scalar tensor takes part without deciding the dtype, as in torch's own promotion
            deciding = [given for given in inputs if not _is_scalar(given)] or inputs
            low = all(given in marks.low for given in deciding)
        else:
            marks.wanted[node] = FLOAT32
        if low and is_float32(node):
            marks.low.add(node)
    return marks


def computes(node: fx.Node) -> bool:
    """Whether this operation may compute in bfloat16."""
    floats = [given for given in node.all_input_nodes if is_float32(given)]
    return node.op == "call_function" and operation(node) in COMPUTE and is_float32(node) and bool(floats)


def operation(node: fx.Node) -> str:
    """Its name without overload, such as `linear`."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return target.overloadpacket.__name__
    return getattr(target, "__name__", str(target))


def is_float32(node: fx.Node) -> bool:
    """Whether its floating values are float32, as `meta["val"]` has them."""
    leaves = [v for v in pytree.tree_leaves(node.meta.get("val")) if isinstance(v, torch.Tensor)]
    floating = [v for v in leaves if v.dtype.is_floating_point]
    return bool(floating) and all(v.dtype == FLOAT32 for v in floating)


def _feeding(nodes: fx.Graph, keep_ops: Collection[str], kept: Collection[fx.Node]) -> set[fx.Node]:
    """Nodes from which a path leads to an operation that will compute in bfloat16, through none that is kept."""
    found: set[fx.Node] = set()
    for node in reversed(nodes.nodes):
        users = [user for user in node.users if user not in kept]
        lowered = (operation(user) in COMPUTE and operation(user) not in keep_ops for user in users)
        if any(lowered) or any(user in found for user in users):
            found.add(node)
    return found


def _is_scalar(node: fx.Node) -> bool:
    value = node.meta["val"]
    return isinstance(value, torch.Tensor) and value.dim() == 0
