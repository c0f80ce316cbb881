"""Questions that matchers ask: is this a linear layer with constant weights, a no-op, a scalar, the only user?

They read the graph and change nothing.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass

import torch
from torch import fx

from optimizer.optimizing.graph import Graph, same_size

aten = torch.ops.aten


@dataclass(frozen=True)
class ConstantLinear:
    """`input @ weight.T + bias` with constant weights, however it was written. `weight` is [out, in]."""

    node: fx.Node
    input: fx.Node
    weight: torch.Tensor
    bias: torch.Tensor | None


def constant_linear(graph: Graph, node: fx.Node) -> ConstantLinear | str | None:
    """The linear layer at this node; a reason when it looks like one but is not constant; None when it is no linear."""
    transposed = False
    bias: object = None
    if graph.is_op(node, aten.linear.default):
        arguments = graph.arguments(node)
        source, weight, bias = arguments["input"], arguments["weight"], arguments["bias"]
    elif graph.is_op(node, aten.matmul.default, aten.mm.default):
        (source, weight), transposed = node.args[:2], True
    elif graph.is_op(node, aten.einsum.default):
        read = _linear_by_einsum(node)
        if read is None:
            return None
        source, weight, transposed = read
    elif graph.is_op(node, aten.addmm.default):
        arguments = graph.arguments(node)
        bias, source, weight, transposed = arguments["self"], arguments["mat1"], arguments["mat2"], True
        if arguments["alpha"] != 1 or arguments["beta"] != 1:
            return "addmm scales its operands"
    else:
        return None
    if not isinstance(source, fx.Node) or len(graph.shape(source)) < 2:
        return None
    value = graph.constant_value(weight)
    if value is None:
        return "the weight is not constant" if len(graph.shape(weight)) == 2 else None
    if value.dim() != 2:
        return None
    bias_value = None
    if bias is not None:
        bias_value = graph.constant_value(bias)
        if bias_value is None:
            return "the bias is not constant"
        if bias_value.dim() != 1 or bias_value.shape[0] != value.shape[1 if transposed else 0]:
            return "the bias is not one value per output"
    if not isinstance(node.meta["val"], torch.Tensor) or value.dtype != graph.dtype(node):
        return "the weight's dtype is not the output's"
    return ConstantLinear(node, source, value.t() if transposed else value, bias_value)


def _linear_by_einsum(node: fx.Node) -> tuple[object, object, bool] | None:
    """(input, weight, whether the weight is [in, out]) of `bsd,df->bsf` and `...d,fd->...f`."""
    equation, operands = node.args[0], node.args[1]
    if not isinstance(equation, str) or not isinstance(operands, list | tuple) or len(operands) != 2:
        return None
    inputs, _, out = equation.replace(" ", "").partition("->")
    source, _, weight = inputs.partition(",")
    summed, kept = source[-1:], out[-1:]
    fits = weight in (summed + kept, kept + summed) and len(weight) == 2 and source[:-1] == out[:-1]
    letters = source.replace("...", "")
    if not fits or kept in source or len(set(letters)) != len(letters) or summed == ".":
        return None
    return operands[0], operands[1], weight == summed + kept


def skip_noops(graph: Graph, node: fx.Node) -> fx.Node:
    """Walks up over what hands its input back with the same values, shape and dtype: dropout in eval, ..."""
    while (inner := _inside_noop(graph, node)) is not None:
        node = inner
    return node


def is_noop(graph: Graph, node: fx.Node) -> bool:
    return _inside_noop(graph, node) is not None


def _inside_noop(graph: Graph, node: fx.Node) -> fx.Node | None:
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], fx.Node):
        return None
    inner = node.args[0]
    if not graph.is_tensor(node) or not graph.is_tensor(inner):
        return None
    if graph.dtype(node) != graph.dtype(inner) or not graph.same_shape(graph.shape(node), graph.shape(inner)):
        return None
    if graph.is_op(node, aten.dropout, aten.feature_dropout, aten.alpha_dropout):
        arguments = graph.arguments(node)
        return inner if arguments["train"] is False or arguments["p"] == 0 else None
    same = (
        aten.contiguous,
        aten.clone,
        aten.alias,
        aten.detach,
        aten.to,
        aten._to_copy,
        aten.expand,
        aten.expand_as,
        aten.view,
        aten.reshape,
        aten.view_as,
        aten.slice,
        aten.lift_fresh_copy,
    )
    return inner if graph.is_op(node, *same) else None


def scalar(graph: Graph, value: object) -> float | None:
    """A number written as such, or as a constant tensor of one element; None otherwise (a symbolic size, too)."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value)
    tensor = graph.constant_value(value)
    if tensor is not None and tensor.numel() == 1 and not tensor.is_complex():
        return float(tensor.item())
    return None


def only_user(node: fx.Node) -> fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def last_dim(graph: Graph, node: fx.Node, dim: object) -> bool:
    """Whether `dim` names the last dimension of the node's tensor."""
    return isinstance(dim, int) and dim % len(graph.shape(node)) == len(graph.shape(node)) - 1


def dim_of(graph: Graph, node: fx.Node, dim: int) -> int:
    """The dimension counted from the front."""
    return dim % len(graph.shape(node))


def one(size: object) -> bool:
    """Whether a size is 1 for every value of the dynamic dimensions."""
    return isinstance(size, int | torch.SymInt) and same_size(size, 1)


@dataclass(frozen=True)
class Column:
    """One index along one dimension of a tensor. `kept`: the dimension stays, with size 1."""

    source: fx.Node
    dim: int
    index: int
    kept: bool


def column(graph: Graph, node: fx.Node) -> Column | None:
    """`x[:, i]`, `x[:, i:i+1]`, `x.unbind(1)[i]`, `x.split(1, 1)[i]` and a squeeze of the kept ones, as one thing."""
    node = skip_noops(graph, node)
    if graph.is_op(node, aten.squeeze.dim, aten.squeeze.dims):
        (inner, dims) = node.args[:2]
        found = column(graph, inner) if isinstance(inner, fx.Node) else None
        dims = [dims] if isinstance(dims, int) else dims
        if not (found and found.kept and isinstance(inner, fx.Node) and isinstance(dims, list | tuple)):
            return None
        squeezed = [dim_of(graph, inner, d) for d in dims if isinstance(d, int)]
        return Column(found.source, found.dim, found.index, kept=False) if squeezed == [found.dim] else None
    if graph.is_op(node, aten.select.int):
        arguments = graph.arguments(node)
        return _column(graph, arguments["self"], arguments["dim"], arguments["index"], kept=False)
    if graph.is_op(node, aten.slice.Tensor):
        arguments = graph.arguments(node)
        start, end = arguments["start"], arguments["end"]
        if isinstance(start, int) and isinstance(end, int) and end == start + 1 and arguments["step"] == 1:
            return _column(graph, arguments["self"], arguments["dim"], start, kept=True)
        return None
    if node.op == "call_function" and node.target is operator.getitem and isinstance(node.args[1], int):
        parts = node.args[0]
        if graph.is_op(parts, aten.unbind.int):
            arguments = graph.arguments(parts)  # type: ignore[arg-type]
            return _column(graph, arguments["self"], arguments["dim"], node.args[1], kept=False)
        if graph.is_op(parts, aten.split.Tensor):
            arguments = graph.arguments(parts)  # type: ignore[arg-type]
            if arguments["split_size"] == 1:
                return _column(graph, arguments["self"], arguments["dim"], node.args[1], kept=True)
    return None


def _column(graph: Graph, source: object, dim: object, index: object, *, kept: bool) -> Column | None:
    if not (isinstance(source, fx.Node) and isinstance(dim, int) and isinstance(index, int)):
        return None
    dim = dim_of(graph, source, dim)
    size = graph.shape(source)[dim]
    if not isinstance(size, int):
        return Column(source, dim, index, kept) if index >= 0 else None
    return Column(source, dim, index % size, kept)
