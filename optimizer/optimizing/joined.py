"""Values joined of a part that repeats over the batch and one that varies: kept apart while that saves work.

`cat([user, item], -1)` in front of a linear layer becomes `user @ Wu.T + b`, once, plus `item @ Wi.T`. In the pairwise
products of stacked embeddings (DLRM's interaction) those of two repeating embeddings are computed once, and the picked
columns need not even be put in order: the next layer's weight is. Whatever else reads such a value gets it whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from optimizer.optimizing.graph import Graph, same_size
from optimizer.optimizing.matching import ConstantLinear, constant_linear, one
from optimizer.optimizing.row_values import is_elementwise
from optimizer.optimizing.row_views import order_of
from optimizer.optimizing.rows import Once

if TYPE_CHECKING:
    from optimizer.optimizing.repeating import Repeating

aten = torch.ops.aten


@dataclass(frozen=True)
class Joined:
    """`once` holds the positions `once_at` of dimension `dim` for one row, `rows` those of `rows_at` for all. `axis`
    is the batch's."""

    dim: int
    axis: int
    once: fx.Node
    once_at: tuple[int, ...]
    rows: fx.Node
    rows_at: tuple[int, ...]

    def whole(self, by: Repeating, before: fx.Node) -> fx.Node:
        wide = by.expanded(Once(self.once, self.axis), before)
        both = by.graph.call(aten.cat.default, [wide, self.rows], self.dim, before=before, like=before)
        at = [*self.once_at, *self.rows_at]
        if at == sorted(at):
            return both
        order = by.graph.constant(torch.tensor(at).argsort(), f"{before.name}_order")
        return by.graph.call(aten.index_select.default, both, self.dim, order, before=before, like=before)


@dataclass
class Products:
    """`left @ right` of two joined values: [batch, m, k] along m by [batch, k, n] along n. Computed where needed."""

    node: fx.Node
    left: Joined
    right: Joined
    _blocks: dict[str, fx.Node] = field(default_factory=dict)

    def whole(self, by: Repeating, before: fx.Node) -> fx.Node:
        left, right = (by.whole(n, before) for n in self.node.args[:2])  # type: ignore[arg-type]
        return by.graph.call(aten.bmm.default, left, right, before=before, like=before)

    def block(self, by: Repeating, which: str, before: fx.Node) -> fx.Node:
        """`once-once` [1, m, n], and for all rows `once-rows`, `rows-once`, `rows-rows`: flat, [rows, m*n]."""
        if which not in self._blocks:
            first, _, second = which.partition("-")
            product = self._product(by, first, second, before)
            self._blocks[which] = by.graph.call(aten.flatten.using_ints, product, 1, 2, before=before, like=before)
        return self._blocks[which]

    def _product(self, by: Repeating, first: str, second: str, before: fx.Node) -> fx.Node:
        def call(op: Any, *args: Any) -> fx.Node:
            return by.graph.call(op, *args, before=before, like=before)

        left = self.left.once if first == "once" else self.left.rows
        right = self.right.once if second == "once" else self.right.rows
        if first == second:
            return call(aten.bmm.default, left, right)
        if first == "rows":
            return call(aten.matmul.default, left, call(aten.select.int, right, 0, 0))
        turned = call(aten.transpose.int, right, 1, 2)
        across = call(aten.transpose.int, call(aten.select.int, left, 0, 0), 0, 1)
        return call(aten.transpose.int, call(aten.matmul.default, turned, across), 1, 2)


def handled(by: Repeating, node: fx.Node) -> bool:
    """Whether the operation was done part by part. What it read, and what it gives, is in `by.lazy`."""
    if node.target in (aten.cat.default, aten.stack.default):
        return _join(by, node)
    sources = [n for n in node.all_input_nodes if n in by.lazy]
    if not sources:
        return False
    value = by.lazy[sources[0]]
    if node.target in (aten.bmm.default, aten.matmul.default) and len(sources) > 0:
        return _multiply(by, node) or _linear(by, node, value)
    if len(sources) > 1 or any(n in by.known for n in node.all_input_nodes):
        return False
    if isinstance(value, Products):
        return _pick_products(by, node, value)
    if is_elementwise(node):
        others = [n for n in node.all_input_nodes if n is not sources[0]]
        return not others and _apart(by, node, value, value.dim, value.axis)
    if node.target in (aten.transpose.int, aten.permute.default, aten.mT.default):
        order = order_of(by.graph, node)
        return _apart(by, node, value, order.index(value.dim), order.index(value.axis))
    if node.target in (aten.view.default, aten.reshape.default, aten.flatten.using_ints):
        return _view(by, node, value)
    if node.target is aten.sum.dim_IntList:
        return _sum(by, node, value)
    if node.target in (aten.index.Tensor, aten.index_select.default):
        return _pick(by, node, value)
    return _linear(by, node, value)


# ---- joining -------------------------------------------------------------------------------------------------------


def _join(by: Repeating, node: fx.Node) -> bool:
    """A concatenation or stack of both kinds. False where all operands repeat, or where it joins along the batch."""
    graph, operands = by.graph, list(node.args[0])  # type: ignore[arg-type]
    if all(n in by.known for n in operands) or not any(by.repeats(n) for n in operands):
        return False
    stacked = node.target is aten.stack.default
    dim = graph.arguments(node)["dim"] % len(graph.shape(node))
    axes = {_axis(by, n, dim, stacked) for n in operands if by.repeats(n)}
    if any(graph.dtype(n) != graph.dtype(node) for n in operands):
        return False
    if len(axes) != 1 or None in axes or dim in axes:
        return False
    once: list[tuple[fx.Node, tuple[int, ...]]] = []
    rows: list[tuple[fx.Node, tuple[int, ...]]] = []
    start = 0
    for operand in operands:
        width = 1 if stacked else graph.shape(operand)[dim]
        if not isinstance(width, int):
            return False
        at = tuple(range(start, start + width))
        if operand in by.lazy:
            value = by.lazy[operand]
            once.append((value.once, tuple(start + i for i in value.once_at)))
            rows.append((value.rows, tuple(start + i for i in value.rows_at)))
        elif operand in by.known:
            once.append((by.known[operand].node, at))
        else:
            rows.append((operand, at))
        start += width
    (axis,) = axes
    if not rows or axis is None:
        return False
    parts = [_together(graph, node, [n for n, _ in some], dim) for some in (once, rows)]
    ats = [tuple(i for _, at in some for i in at) for some in (once, rows)]
    by.lazy[node] = Joined(dim, axis, parts[0], ats[0], parts[1], ats[1])
    return True


def _axis(by: Repeating, operand: fx.Node, dim: int, stacked: bool) -> int | None:
    if operand in by.lazy:
        value = by.lazy[operand]
        return value.axis if isinstance(value, Joined) and value.dim == dim and not stacked else None
    found = by.known[operand]
    if not one(found.inner):
        return None
    return found.axis + (stacked and dim <= found.axis)


def _together(graph: Graph, node: fx.Node, parts: list[fx.Node], dim: int) -> fx.Node:
    if node.target is aten.stack.default:
        return graph.call(aten.stack.default, parts, dim, before=node, like=node)
    return parts[0] if len(parts) == 1 else graph.call(aten.cat.default, parts, dim, before=node, like=node)


# ---- what takes the parts one by one -------------------------------------------------------------------------------


def _apart(by: Repeating, node: fx.Node, value: Joined, dim: int, axis: int) -> bool:
    """The same operation on each part."""
    assert isinstance(node.target, torch._ops.OpOverload)
    if torch.Tag.nondeterministic_seeded in node.target.tags:
        return False
    (source,) = node.all_input_nodes
    once, rows = (
        by.graph.call(
            node.target,
            *fx.node.map_arg(node.args, lambda n, part=part: part if n is source else n),
            before=node,
            like=node,
            **node.kwargs,
        )
        for part in (value.once, value.rows)
    )
    by.lazy[node] = Joined(dim, axis, once, value.once_at, rows, value.rows_at)
    return True


def _view(by: Repeating, node: fx.Node, value: Joined) -> bool:
    """`[batch, fields*width]` to `[batch, fields, width]`, and back."""
    graph = by.graph
    (source,) = node.all_input_nodes[:1]
    before, after = graph.shape(source), graph.shape(node)
    if value.axis != 0 or value.dim != 1 or source not in by.lazy or not same_size(before[0], after[0]):
        return False
    if any(not isinstance(size, int) for size in (*before[1:], *after[1:])):
        return False
    if len(before) == 2 and len(after) == 3:
        width = int(after[2])
        ats = [_fields(at, width) for at in (value.once_at, value.rows_at)]
        if None in ats:
            return False
        sizes = [[-1, len(at), width] for at in ats if at is not None]
    elif len(before) == 3 and len(after) == 2:
        width = int(before[2])
        ats = [tuple(i * width + j for i in at for j in range(width)) for at in (value.once_at, value.rows_at)]
        sizes = [[-1, len(at)] for at in ats if at is not None]
    else:
        return False
    once, rows = (
        graph.call(aten.reshape.default, part, size, before=node, like=node)
        for part, size in zip((value.once, value.rows), sizes, strict=True)
    )
    by.lazy[node] = Joined(1, 0, once, ats[0], rows, ats[1])  # type: ignore[arg-type]
    return True


def _fields(at: tuple[int, ...], width: int) -> tuple[int, ...] | None:
    """The fields of `width` columns each that these columns are, in order."""
    fields = tuple(i // width for i in at[::width])
    return fields if at == tuple(f * width + j for f in fields for j in range(width)) else None


def _sum(by: Repeating, node: fx.Node, value: Joined) -> bool:
    """A sum over the fields: what repeats is summed once."""
    arguments = by.graph.arguments(node)
    rank = len(by.graph.shape(node.args[0]))  # type: ignore[arg-type]
    dims = [d % rank for d in arguments["dim"] or []]
    if dims != [value.dim]:
        return False
    once, rows = (
        by.graph.call(aten.sum.dim_IntList, part, *node.args[1:], before=node, like=node, **node.kwargs)
        for part in (value.once, value.rows)
    )
    total = by.emit(aten.add.Tensor, rows, once, before=node)
    return total is not None and by.stand_in(node, total)


def _linear(by: Repeating, node: fx.Node, value: Joined | Products) -> bool:
    """One layer over both: the columns of its weight go with the part that they multiply."""
    layer = constant_linear(by.graph, node)
    if not isinstance(layer, ConstantLinear) or by.lazy.get(layer.input) is not value or isinstance(value, Products):
        return False
    if value.dim != len(by.graph.shape(layer.input)) - 1:
        return False

    def weight(at: tuple[int, ...], role: str) -> fx.Node:
        return by.graph.constant(layer.weight[:, list(at)], f"{node.name}_{role}_weight")

    bias = None if layer.bias is None else by.graph.constant(layer.bias, f"{node.name}_bias")
    once = by.graph.call(aten.linear.default, value.once, weight(value.once_at, "once"), bias, before=node, like=node)
    rows = by.graph.call(aten.linear.default, value.rows, weight(value.rows_at, "rows"), before=node, like=node)
    total = by.graph.call(aten.add.Tensor, rows, once, before=node, like=node)
    by.split.append((node, f"{len(value.once_at)} of {layer.weight.shape[1]} columns once"))
    return by.stand_in(node, total)


# ---- pairwise products ---------------------------------------------------------------------------------------------


def _multiply(by: Repeating, node: fx.Node) -> bool:
    left, right = (by.lazy.get(n) for n in node.args[:2])  # type: ignore[arg-type]
    if not (isinstance(left, Joined) and isinstance(right, Joined)):
        return False
    ranks = [len(by.graph.shape(n)) for n in node.args[:2]]  # type: ignore[arg-type]
    if ranks != [3, 3] or (left.dim, left.axis, right.dim, right.axis) != (1, 0, 2, 0):
        return False
    by.lazy[node] = Products(node, left, right)
    return True


def _pick_products(by: Repeating, node: fx.Node, value: Products) -> bool:
    """`products[:, row, column]`, and all of them flat."""
    rows, columns = (int(s) for s in by.graph.shape(value.node)[1:])  # both are joined of parts of known widths
    if node.target in (aten.view.default, aten.reshape.default, aten.flatten.using_ints):
        shape = by.graph.shape(node)
        if len(shape) != 2 or not same_size(shape[1], rows * columns):
            return False
        pairs = [(i, j) for i in range(rows) for j in range(columns)]
    elif node.target is aten.index.Tensor:
        indices = list(by.graph.arguments(node)["indices"])
        picked = [by.graph.constant_value(i) for i in indices[1:]]
        if indices[0] is not None or len(indices) != 3 or any(not _is_list(p) for p in picked):
            return False
        first, second = torch.broadcast_tensors(*picked)  # type: ignore[arg-type]
        pairs = [(i % rows, j % columns) for i, j in zip(first.tolist(), second.tolist(), strict=True)]
    else:
        return False
    return _gathered(by, node, value, pairs)


def _is_list(index: torch.Tensor | None) -> bool:
    return index is not None and index.dim() == 1 and index.dtype in (torch.int64, torch.int32)


def _gathered(by: Repeating, node: fx.Node, value: Products, pairs: list[tuple[int, int]]) -> bool:
    """The picked products, block by block, and the position of each among all that are picked."""
    places: dict[str, list[tuple[int, int]]] = {}
    left = {at: (kind, i) for kind, ats in _kinds(value.left) for i, at in enumerate(ats)}
    right = {at: (kind, i) for kind, ats in _kinds(value.right) for i, at in enumerate(ats)}
    counts = {"once": len(value.right.once_at), "rows": len(value.right.rows_at)}
    mirrored = _symmetric(value)
    for position, (i, j) in enumerate(pairs):
        (first, a), (second, b) = left[i], right[j]
        if mirrored and (first, second) == ("once", "rows"):
            (first, a), (second, b) = (second, b), (first, a)
        places.setdefault(f"{first}-{second}", []).append((a * counts[second] + b, position))
    once = [(k, v) for k, v in places.items() if k == "once-once"]
    rows = [(k, v) for k, v in places.items() if k != "once-once"]
    if not once or not rows:
        return False
    parts = []
    for some in (once, rows):
        nodes, at = [], []
        for which, found in some:
            taken, positions = _taken(by, node, value.block(by, which, node), found)
            nodes.append(taken)
            at += positions
        joined = nodes[0] if len(nodes) == 1 else by.graph.call(aten.cat.default, nodes, 1, before=node, like=node)
        parts.append((joined, tuple(at)))
    by.lazy[node] = Joined(1, 0, *parts[0], *parts[1])
    by.split.append((node, f"{len(parts[0][1])} of {len(pairs)} products once"))
    return True


def _kinds(value: Joined) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return ("once", value.once_at), ("rows", value.rows_at)


def _symmetric(value: Products) -> bool:
    """`x @ x^T`: then the products of (user, item) are those of (item, user)."""
    right = value.right.rows
    turned = right.target in (aten.transpose.int, aten.permute.default, aten.mT.default)
    return turned and right.args[0] is value.left.rows and value.left.rows_at == value.right.rows_at


def _taken(by: Repeating, node: fx.Node, block: fx.Node, found: list[tuple[int, int]]) -> tuple[fx.Node, list[int]]:
    """The picked columns of a block: all of it as it is where each is picked once, whatever the order."""
    ordered = sorted(found)
    if [column for column, _ in ordered] == list(range(int(by.graph.shape(block)[1]))):
        return block, [position for _, position in ordered]
    index = by.graph.constant(torch.tensor([column for column, _ in found]), f"{node.name}_columns")
    taken = by.graph.call(aten.index_select.default, block, 1, index, before=node, like=node)
    return taken, [position for _, position in found]


def _pick(by: Repeating, node: fx.Node, value: Joined) -> bool:
    """Columns of a joined value by constant positions."""
    graph, arguments = by.graph, by.graph.arguments(node)
    if node.target is aten.index_select.default:
        dim, index = arguments["dim"] % len(graph.shape(node)), graph.constant_value(arguments["index"])
    else:
        indices = list(arguments["indices"])
        at = [i for i, one_index in enumerate(indices) if one_index is not None]
        if len(at) != 1:
            return False
        dim, index = at[0], graph.constant_value(indices[at[0]])
    if dim != value.dim or index is None or not _is_list(index):
        return False
    width = len(value.once_at) + len(value.rows_at)
    wanted = [int(i) % width for i in index.tolist()]
    parts = []
    for part, ats in ((value.once, value.once_at), (value.rows, value.rows_at)):
        place = {at: i for i, at in enumerate(ats)}
        found = [(place[i], position) for position, i in enumerate(wanted) if i in place]
        if not found:
            return False
        picked = graph.constant(torch.tensor([i for i, _ in found]), f"{node.name}_columns")
        taken = graph.call(aten.index_select.default, part, dim, picked, before=node, like=node)
        parts.append((taken, tuple(position for _, position in found)))
    by.lazy[node] = Joined(dim, value.axis, *parts[0], *parts[1])
    return True
