"""How a norm, with a residual add before it or not, looks in an undecomposed graph; and inputs that try such kernels.

Only recognises: whether the nodes have other users or share memory with an in-place write is the pass's business.
RMSNorm: `aten.rms_norm`, or x * rsqrt(mean(x ** 2) + eps) with its respellings. LayerNorm: `aten.layer_norm`, or
(x - mean) / sqrt(mean((x - mean) ** 2) + eps) with its respellings. Float32 casts around either and a weight (and bias)
on either side are taken along. Not recognised: norms over several dims, eps outside the root, unbiased variance.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from kernels import rows
from kernels.patterns import CASTS, arguments, last
from kernels.patterns import only_user as _only_user
from kernels.patterns import value as _val
from kernels.spec import Match, Mismatch, Sample, same_shape, same_size

aten = torch.ops.aten
RMS_SPELLINGS = ("aten.rms_norm", "x * rsqrt(mean(x ** 2) + eps), with its respellings")
LAYER_SPELLINGS = ("aten.layer_norm", "(x - mean) * rsqrt(mean((x - mean) ** 2) + eps), with its respellings")


@dataclass
class _Chain:
    """The norm so far: its last node, what it swallowed, and its parameters."""

    end: Node
    inside: list[Node]
    weight: Node | None = None
    bias: Node | None = None


@dataclass(frozen=True)
class Norm:
    """A whole norm: what it norms, the node that holds the result, what lies between, and its parameters."""

    source: Node
    normed: Node
    inside: tuple[Node, ...]
    parameters: tuple[Node | None, ...]
    eps: float


def find_rms_norm(anchor: Node) -> Norm | Mismatch | None:
    """The anchor is the `rms_norm` node, or the mean of the squares of a hand-written one."""
    if anchor.target is aten.rms_norm.default:
        given = arguments(anchor)
        if len(given["normalized_shape"]) != 1:
            return Mismatch("the norm runs over more than the last dimension", anchor)
        eps = given["eps"]
        if eps is None:
            eps = torch.finfo(_val(given["input"]).dtype).eps
        return Norm(given["input"], anchor, (), (given["weight"],), float(eps))
    square, swallowed = _mean_over_last(anchor)
    source = _squared(square)
    if square is None or source is None or _centred(source) is not None:
        return None
    scaled = _scaled_by_inverse_root(anchor, source)
    if scaled is None or isinstance(scaled, Mismatch):
        return scaled
    chain, eps = scaled
    chain.inside += [*swallowed, square]
    return _finish(source, chain, eps, bias=False)


def rms_norm_that_gives(normed: Node, within: int = 40) -> Norm | None:
    """The RMSNorm whose result is this node."""
    seen, pending = {normed}, [normed]
    while pending and len(seen) <= within:
        node = pending.pop(0)
        found = find_rms_norm(node)
        if isinstance(found, Norm) and found.normed is normed:
            return found
        fresh = [n for n in node.all_input_nodes if n not in seen]
        seen.update(fresh)
        pending += fresh
    return None


def find_layer_norm(anchor: Node) -> Norm | Mismatch | None:
    """The anchor is the `layer_norm` node, or the variance of a hand-written one."""
    if anchor.target is aten.layer_norm.default:
        given = arguments(anchor)
        if len(given["normalized_shape"]) != 1:
            return Mismatch("the norm runs over more than the last dimension", anchor)
        return Norm(given["input"], anchor, (), (given["weight"], given["bias"]), float(given["eps"]))
    square, swallowed = _mean_over_last(anchor)
    centred = _squared(square)
    if square is not None and centred is not None:
        swallowed.append(square)
        found = _centred(centred)
    else:
        variance = _variance(anchor)
        if variance is None:
            return None
        beside = _centred_beside(variance)
        if beside is None or isinstance(beside, Mismatch):
            return beside
        found, centred, swallowed = beside, beside[2], [anchor, variance]
    if found is None or centred is None:
        return None
    source, mean, _ = found
    scaled = _scaled_by_inverse_root(anchor, centred)
    if scaled is None or isinstance(scaled, Mismatch):
        return scaled
    chain, eps = scaled
    chain.inside += [*swallowed, centred, mean]
    return _finish(source, chain, eps, bias=True)


# ---- the pieces of a hand-written norm ---------------------------------------------------------------------------


def _mean_over_last(node: Any) -> tuple[Node | None, list[Node]]:
    """The input of a mean over the last dimension that keeps it, and the nodes of the mean (or of sum / width)."""
    if not isinstance(node, Node):
        return None, []
    total, nodes = node, [node]
    if (
        node.target is aten.div.Tensor
        and isinstance(node.args[0], Node)
        and node.args[0].target is aten.sum.dim_IntList
    ):
        total, nodes = node.args[0], [node, node.args[0]]
        width = _val(total.args[0]).shape[-1]
        if not isinstance(width, int) or node.args[1] != width or len(total.users) != 1:
            return None, []
    elif node.target is not aten.mean.dim:
        return None, []
    given = arguments(total)
    rank = _val(given["self"]).dim()
    if not given["keepdim"] or given["dtype"] is not None or [d % rank for d in given["dim"] or []] != [rank - 1]:
        return None, []
    return given["self"], nodes


def _squared(node: Node | None) -> Node | None:
    if node is None or node.op != "call_function":
        return None
    if node.target is aten.pow.Tensor_Scalar and node.args[1] == 2:
        return node.args[0]  # type: ignore[return-value]
    if node.target is aten.square.default:
        return node.args[0]  # type: ignore[return-value]
    if node.target is aten.mul.Tensor and node.args[0] is node.args[1]:
        return node.args[0]  # type: ignore[return-value]
    return None


def _centred(node: Node) -> tuple[Node, Node, Node] | None:
    """(x, mean, node) when the node is `x - mean(x)`."""
    if node.target is not aten.sub.Tensor or node.kwargs.get("alpha", 1) != 1 or not isinstance(node.args[1], Node):
        return None
    source, mean = node.args[0], node.args[1]
    if not isinstance(source, Node) or (_mean_over_last(mean)[0] or _mean_beside_variance(mean)) is not source:
        return None
    return source, mean, node


def _variance(node: Node) -> Node | None:
    """The call of `var`, or of the `var_mean` that this is the first result of."""
    if node.target is operator.getitem and node.args[1] == 0 and isinstance(node.args[0], Node):
        node = node.args[0]
        return node if node.target in (aten.var_mean.dim, aten.var_mean.correction) else None
    return node if node.target in (aten.var.dim, aten.var.correction) else None


def _mean_beside_variance(node: Node) -> Node | None:
    """The input of the `var_mean` over the last dimension that this is the second result of."""
    if node.target is not operator.getitem or node.args[1] != 1 or not isinstance(node.args[0], Node):
        return None
    if node.args[0].target not in (aten.var_mean.dim, aten.var_mean.correction):
        return None
    given = arguments(node.args[0])
    source: Node = given["self"]
    return source if last(given["dim"], _val(source).dim()) and given["keepdim"] else None


def _centred_beside(variance: Node) -> tuple[Node, Node, Node] | Mismatch | None:
    """`x - mean(x)` for a variance of x that was taken by `var`."""
    given = arguments(variance)
    source: Node = given["self"]
    if not given["keepdim"] or not last(given["dim"] or [], _val(source).dim()):
        return None
    beside = [c for user in source.users if (c := _centred(user)) is not None]
    if not beside:
        return None
    correction = given["unbiased"] if "unbiased" in given else given["correction"]
    if correction is None or correction != 0:
        return Mismatch("the variance is unbiased (divided by n - 1); LayerNorm divides by n", variance)
    return beside[0]


def _scaled_by_inverse_root(moment: Node, source: Node) -> tuple[_Chain, float] | Mismatch | None:
    """From a mean of squares on: `source / sqrt(moment + eps)` in its respellings."""
    shifted = _only_user(moment)
    eps = _shift(shifted, moment)
    if shifted is None or eps is None:
        if shifted is not None and shifted.target in (aten.sqrt.default, aten.rsqrt.default):
            return Mismatch("no epsilon is added under the root", shifted)
        return None
    root = _only_user(shifted)
    inside = [shifted]
    if root is None:
        return None
    divides = root.target is aten.sqrt.default or (root.target is aten.pow.Tensor_Scalar and root.args[1] == 0.5)
    inverts = root.target is aten.rsqrt.default or (root.target is aten.pow.Tensor_Scalar and root.args[1] == -0.5)
    if not (divides or inverts):
        return None
    inside.append(root)
    product = _only_user(root)
    if divides and product is not None and product.target is aten.reciprocal.default:
        inside.append(product)
        root, product, divides = product, _only_user(product), False
        if product is not None and product.target is aten.mul.Tensor and 1 in product.args:  # 1 / x is reciprocal * 1
            inside.append(product)
            root, product = product, _only_user(product)
    if product is None:
        return Mismatch("the root of the mean of squares has other users", root)
    chain = _Chain(product, inside)
    # T5 squares the row in float32 and scales the row as it was: the product is float32 all the same
    scaled = {source, source.args[0]} if source.target in CASTS else {source}
    target = aten.div.Tensor if divides else aten.mul.Tensor
    if product.target is not target or _val(product).dtype != _val(source).dtype:
        return None
    left, right = product.args[:2]
    row = left if right is root else None if divides or left is not root else right
    if isinstance(row, Node) and row not in scaled:  # weight * x / root: the weight comes first
        weighted = [n for n in scaled if row.target is aten.mul.Tensor and n in row.args and len(row.users) == 1]
        weight = _parameter(row, weighted[0]) if weighted else None
        if weight is None or _val(row).dtype != _val(source).dtype:
            return None
        chain.weight = weight
        chain.inside.append(row)
        row = weighted[0]
    return (chain, eps) if row in scaled else None


def _shift(node: Node | None, moment: Node) -> float | None:
    """The epsilon added to a moment, on either side."""
    if node is None or node.target is not aten.add.Tensor or node.kwargs.get("alpha", 1) != 1 or len(node.args) != 2:
        return None
    other = node.args[1] if node.args[0] is moment else node.args[0]
    return float(other) if isinstance(other, (int, float)) and not isinstance(other, bool) else None


def _finish(source: Node, chain: _Chain, eps: float, bias: bool) -> Norm | Mismatch:
    """Takes casts, weight and bias behind the norm along, as far as the dtype comes back to the sum's."""
    total = source
    if source.target in CASTS:
        total = source.args[0]  # type: ignore[assignment]
        if _val(total).dtype != _val(source).dtype:  # a cast without effect may have other users
            chain.inside.append(source)
    dtype, wide = _val(total).dtype, _val(source).dtype
    if wide not in (dtype, torch.promote_types(dtype, torch.float32)):
        return Mismatch(f"the norm of a {dtype} sum is computed in {wide}, the kernel computes in float32", source)
    best = None
    walk = _Chain(chain.end, list(chain.inside), chain.weight)
    while True:
        if _val(walk.end).dtype == dtype:
            best = _Chain(walk.end, list(walk.inside), walk.weight, walk.bias)
        following = _only_user(walk.end)
        if following is None or following.op != "call_function":
            break
        parameter = _parameter(following, walk.end)
        if following.target in CASTS and _val(following).dtype in (dtype, wide):
            pass
        elif following.target is aten.mul.Tensor and parameter is not None and walk.weight is walk.bias is None:
            walk.weight = parameter
        elif bias and following.target is aten.add.Tensor and parameter is not None and walk.bias is None:
            walk.bias = parameter
        else:
            break
        walk.inside.append(walk.end)
        walk.end = following
    if best is None:
        return Mismatch(f"the normed value is {_val(chain.end).dtype} and never comes back to {dtype}", chain.end)
    parameters = (best.weight, best.bias) if bias else (best.weight,)
    return Norm(total, best.end, tuple(n for n in best.inside if n is not best.end), parameters, eps)


def _parameter(node: Node, chain: Node) -> Node | None:
    """The other operand when it is a vector along the row."""
    if node.kwargs.get("alpha", 1) != 1 or len(node.args) != 2:
        return None
    other = node.args[1] if node.args[0] is chain else node.args[0]
    if not isinstance(other, Node) or other is chain or not isinstance(other.meta.get("val"), torch.Tensor):
        return None
    value = _val(other)
    return other if value.dim() == 1 and same_size(value.shape[0], _val(chain).shape[-1]) else None


def with_add(norm: Norm | Mismatch | None) -> Match | Mismatch | None:
    """The norm and the residual add that feeds it, as one operation with two outputs."""
    if norm is None or isinstance(norm, Mismatch):
        return norm
    total = norm.source
    if total.op != "call_function" or total.target is not aten.add.Tensor:
        return Mismatch("no residual add feeds this norm", norm.normed)
    if total.kwargs.get("alpha", 1) != 1:
        return Mismatch("the add scales its second operand", total)
    x, residual = total.args[0], total.args[1]
    if not (isinstance(x, Node) and isinstance(residual, Node)):
        return Mismatch("the add before the norm adds a number, not a residual", total)
    fault = rows.why_not(_val(x), _val(residual), _named(norm)) or _differs(norm)
    if fault is not None:
        return Mismatch(fault, total)
    return Match(args=(x, residual, *norm.parameters, norm.eps), outputs=(norm.normed, total), inside=norm.inside)


def alone(norm: Norm | Mismatch | None) -> Match | Mismatch | None:
    """The norm as an operation of its own."""
    if norm is None or isinstance(norm, Mismatch):
        return norm
    fault = rows.why_not_row(_val(norm.source), _named(norm)) or _differs(norm)
    if fault is not None:
        return Mismatch(fault, norm.normed)
    return Match(args=(norm.source, *norm.parameters, norm.eps), outputs=(norm.normed,), inside=norm.inside)


def _named(norm: Norm) -> dict[str, torch.Tensor | None]:
    named = zip(("weight", "bias"), norm.parameters, strict=False)
    return {name: None if p is None else _val(p) for name, p in named}


def _differs(norm: Norm) -> str | None:
    before, after = _val(norm.source), _val(norm.normed)
    if after.dtype != before.dtype:
        return f"the normed value is {after.dtype}, what it norms {before.dtype}"
    return None if same_shape(after, before) else "the normed value and what it norms have different shapes"


# ---- inputs that the kernels are tried on ----------------------------------------------------------------------------


def samples(dtype: torch.dtype, parameters: int, eps: float, inputs: int = 2) -> list[Sample]:
    """Every shape of `rows.SHAPES`, with and without the parameters."""
    found = []
    for index, shape in enumerate(rows.SHAPES):
        draw = torch.Generator().manual_seed(index)
        tensors = [torch.randn(shape, generator=draw).to(dtype) for _ in range(inputs)]
        given = [torch.randn(shape[-1], generator=draw).to(dtype) for _ in range(parameters)]
        name = "x".join(map(str, shape))
        found.append(Sample(name, (*tensors, *given, eps)))
        found.append(Sample(f"{name} without parameters", (*tensors, *[None] * parameters, eps)))
    return found


def edges(dtype: torch.dtype, parameters: int, eps: float, inputs: int = 2) -> list[Sample]:
    draw = torch.Generator().manual_seed(99)
    x = torch.randn(4, 100, generator=draw).to(dtype)
    given = [torch.randn(100, generator=draw).to(dtype) for _ in range(parameters)]
    wide = torch.randn(2, 9001, generator=draw).to(dtype)
    none = [None] * parameters

    def sample(name: str, tensors: tuple[torch.Tensor, torch.Tensor], vectors: list[Any], epsilon: float) -> Sample:
        return Sample(name, (*tensors[:inputs], *vectors, epsilon))

    return [
        sample("zeros", (torch.zeros_like(x), torch.zeros_like(x)), given, eps),
        sample("cancelling", (x, -x), given, eps),
        sample("large", (x * 100, x * 20), given, eps),
        sample("constant rows far from zero", (torch.full_like(x, 96), torch.full_like(x, 32)), given, eps),
        sample("strong epsilon", (x, x), given, 10.0),
        sample("wider than a tile", (wide, wide.flip(0)), none, eps),
        sample("transposed", (x.T, x.T.clone()), none, eps),
        sample("no rows", (x[:0], x[:0]), given, eps),
    ]
