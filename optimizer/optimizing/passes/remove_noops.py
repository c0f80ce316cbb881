"""Removes operations that hand their input's values back: casts to the same dtype, copies, views that undo each other.

Also casts to a wider dtype that are cast again, dropout in evaluation, adding 0, multiplying by 1, joining one tensor.
Refuses active dropout, and to drop a copy that keeps an output apart from an input, a weight or another output. Leaves
what really moves memory (a `contiguous` of a transposed tensor). `x + 0` turns -0.0 into 0.0; removing it does not.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

from optimizer.optimizing.base import Pass, Report, register_pass
from optimizer.optimizing.graph import Graph
from optimizer.optimizing.memory import handed_back, seen_outside

aten = torch.ops.aten

CASTS = (aten.to, aten._to_copy, aten.type_as)
COPIES = (aten.clone, aten.contiguous, aten.alias, aten.detach, aten.lift_fresh_copy, aten.view_as)
RESHAPES = (
    aten.view,
    aten.reshape,
    aten._unsafe_view,
    aten.flatten,
    aten.unflatten,
    aten.squeeze,
    aten.unsqueeze,
    aten.expand,
    aten.expand_as,
    aten.slice,
)
"""Of these, a result of the input's shape is the input."""
ROW_MAJOR = (
    aten.view.default,
    aten.reshape.default,
    aten._unsafe_view.default,
    aten.flatten.using_ints,
    aten.unflatten.int,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.unsqueeze.default,
)
"""These only regroup the elements in row-major order, so a chain of them is its last member alone. Overloads, not
packets: `view.dtype` reads the same bytes as other numbers."""
DROPOUTS = (aten.dropout, aten.feature_dropout, aten.alpha_dropout, aten.feature_alpha_dropout)


@register_pass
class RemoveNoops(Pass):
    name = "remove_noops"
    title = "Remove operations without effect"
    summary = "Casts to the same dtype, needless copies, views that undo each other, dropout in evaluation, + 0, * 1."
    numerics: ClassVar[Literal["exact", "reassociates"]] = "exact"
    order = 10

    def apply(self, graph: Graph, options: Any, report: Report) -> None:
        for node in graph.operations():
            if not node.users or not graph.is_tensor(node):
                continue
            found = _stand_in(graph, node)
            if isinstance(found, fx.Node):
                if found in graph.tainted:
                    report.refused(node, "its input is written in place later")
                elif _keeps_apart(graph, node, found):
                    report.refused(node, "the copy keeps an output apart from an input, a weight or another output")
                else:
                    report.applied(node, f"{_brief(node)} hands back the values of {found.name}")
                    graph.replace(node, found)
                    graph.module.graph.erase_node(node)  # dropout counts as impure: the sweep would keep it
            elif graph.is_op(node, *DROPOUTS):
                report.refused(node, f"dropout is active (train={graph.arguments(node)['train']})")
            else:
                _shorten(graph, node, report)


def _stand_in(graph: Graph, node: fx.Node) -> fx.Node | None:
    """The node whose values this one hands back."""
    if not isinstance(node.target, torch._ops.OpOverload) or node in graph.tainted:
        return None
    source = node.args[0] if node.args else None
    if graph.is_op(node, aten.cat):
        tensors = graph.arguments(node)["tensors"]
        source = tensors[0] if len(tensors) == 1 else None
        return source if source is not None and _same(graph, node, source) else None
    if not isinstance(source, fx.Node) or not graph.is_tensor(source):
        return None
    if graph.is_op(node, *DROPOUTS):
        given = graph.arguments(node)
        return source if given["train"] is False or given["p"] == 0 else None
    if graph.is_op(node, *CASTS, *COPIES):
        if _same(graph, node, source) and _same_strides(graph, node, source):
            return source
        inner = _before_wider(graph, node, source)
        same = inner is not None and _same(graph, node, inner) and _same_strides(graph, node, inner)
        return inner if same else None
    if graph.is_op(node, aten.add, aten.sub, aten.mul, aten.div) and _neutral(graph, node):
        return source if _same(graph, node, source) else None
    if graph.is_op(node, *RESHAPES) and _same(graph, node, source):
        return source
    order = _order(graph, node)
    if order is not None:
        if order == list(range(len(order))):
            return source
        inner = _order(graph, source)
        if inner is not None and [inner[i] for i in order] == list(range(len(order))):
            return source.args[0]  # type: ignore[return-value]
    if graph.is_op(node, *ROW_MAJOR):
        for earlier in _regrouped(graph, source):
            if _same(graph, node, earlier):
                return earlier
    return None


def _regrouped(graph: Graph, node: fx.Node) -> list[fx.Node]:
    """The tensors that this one regroups, the nearest first."""
    found = []
    while graph.is_op(node, *ROW_MAJOR) and isinstance(node.args[0], fx.Node) and graph.is_tensor(node.args[0]):
        node = node.args[0]
        found.append(node)
    return found


def _shorten(graph: Graph, node: fx.Node, report: Report) -> None:
    """Two permutations become one; of two regroupings the last alone is left."""
    source = node.args[0] if node.args else None
    if not isinstance(source, fx.Node) or source in graph.tainted or node in graph.tainted:
        return
    wide = _before_wider(graph, node, source)
    if wide is not None and _one_cast(graph.dtype(wide), graph.dtype(source), graph.dtype(node)):
        report.applied(node, f"casts {wide.name} directly, without {source.name}")
        graph.replace(node, graph.call(aten.to.dtype, wide, graph.dtype(node), before=node, like=node))
        return
    outer, inner = _order(graph, node), _order(graph, source)
    if outer is not None and inner is not None:
        merged = graph.call(aten.permute.default, source.args[0], [inner[i] for i in outer], before=node, like=node)
        report.applied(node, f"one permutation in place of two ({_brief(source)}, {_brief(node)})")
        graph.replace(node, merged)
        return
    regroups = graph.is_op(node, aten.view.default, aten.reshape.default, aten._unsafe_view.default)
    earlier = _regrouped(graph, source)
    if regroups and earlier and earlier[-1] not in graph.tainted:
        size = graph.arguments(node)["size" if "view" in str(node.target) else "shape"]
        merged = graph.call(aten.reshape.default, earlier[-1], size, before=node, like=node)
        report.applied(node, f"reshapes {earlier[-1].name} directly, without {source.name}")
        graph.replace(node, merged)


def _before_wider(graph: Graph, node: fx.Node, source: fx.Node) -> fx.Node | None:
    """Of two casts one behind the other, the tensor before, when the first loses nothing."""
    if not graph.is_op(node, *CASTS) or not graph.is_op(source, *CASTS) or source in graph.tainted:
        return None
    before = source.args[0]
    if not isinstance(before, fx.Node) or not graph.is_tensor(before) or before in graph.tainted:
        return None
    devices = {graph.value(n).device for n in (node, source, before)}
    alike = len(devices) == 1 and _same_strides(graph, node, source) and _same_strides(graph, source, before)
    return before if alike and _holds(graph.dtype(source), graph.dtype(before)) else None


def _holds(wide: torch.dtype, narrow: torch.dtype) -> bool:
    """Whether `wide` has every value of `narrow`, infinities and subnormal numbers among them."""
    if narrow == torch.bool or wide == narrow:
        return not wide.is_complex
    if wide == torch.bool or wide.is_complex or narrow.is_complex:
        return False
    if narrow.is_floating_point:
        if not wide.is_floating_point:
            return False
        a, b = torch.finfo(wide), torch.finfo(narrow)
        return a.eps <= b.eps and a.max >= b.max and a.smallest_normal * a.eps <= b.smallest_normal * b.eps
    values = torch.iinfo(narrow)
    if wide.is_floating_point:
        return values.max <= 2 / torch.finfo(wide).eps and torch.finfo(wide).max >= values.max
    return torch.iinfo(wide).min <= values.min and torch.iinfo(wide).max >= values.max


def _one_cast(before: torch.dtype, between: torch.dtype, after: torch.dtype) -> bool:
    """Whether the second cast gives the same from either. Not from floats to integers: beyond their range it depends
    on what is cast."""
    if after.is_complex or after == torch.bool:
        return False
    integers = not (before.is_floating_point or between.is_floating_point)
    return after.is_floating_point or integers


def _keeps_apart(graph: Graph, node: fx.Node, source: fx.Node) -> bool:
    """Whether the node is memory of its own which the caller gets, while others hold the source's."""
    makes_memory = graph.is_op(node, aten._to_copy, aten.clone, aten.lift_fresh_copy, aten.cat) or graph.is_op(
        node, aten.add, aten.sub, aten.mul, aten.div
    )
    makes_memory = makes_memory or (graph.is_op(node, aten.to) and bool(graph.arguments(node).get("copy")))
    return makes_memory and handed_back(graph, node) and seen_outside(graph, source)


def _neutral(graph: Graph, node: fx.Node) -> bool:
    given = graph.arguments(node)
    other = given.get("other")
    if isinstance(other, bool) or not isinstance(other, int | float) or given.get("rounding_mode") is not None:
        return False
    return other == (0 if graph.is_op(node, aten.add, aten.sub) else 1)


def _order(graph: Graph, node: fx.Node) -> list[int] | None:
    """The permutation of a permute or transpose: output dim i is input dim order[i]."""
    if not graph.is_op(node, aten.permute.default, aten.transpose.int, aten.t.default):
        return None
    rank = len(graph.shape(node))
    if graph.is_op(node, aten.permute.default):
        return [d % rank for d in node.args[1]]  # type: ignore[union-attr]
    order = list(range(rank))
    if rank:
        a, b = (0, rank - 1) if graph.is_op(node, aten.t.default) else (int(d) % rank for d in node.args[1:3])  # type: ignore[call-overload]
        order[a], order[b] = order[b], order[a]
    return order


def _same(graph: Graph, a: fx.Node, b: fx.Node) -> bool:
    same_device = graph.value(a).device == graph.value(b).device
    return same_device and graph.dtype(a) == graph.dtype(b) and graph.same_shape(graph.shape(a), graph.shape(b))


def _same_strides(graph: Graph, a: fx.Node, b: fx.Node) -> bool:
    """Along dimensions of one element strides mean nothing."""
    sizes = graph.shape(a)
    pairs = zip(sizes, graph.value(a).stride(), graph.value(b).stride(), strict=True)
    return all(statically_known_true(size == 1) or statically_known_true(i == j) for size, i, j in pairs)


def _brief(node: fx.Node) -> str:
    return str(node.target).removeprefix("aten.").split(".")[0]
