"""Layers over padded sequences compute the rows that a mask shows, and no padding: padded to jagged, and back.

Where a mask overwrites values (`masked_fill`, `where` with a number), what stood at those places never mattered. The
layers in front that work row by row (linear layers, activations, norms and joins of features, products with the
sample's own row) are then computed for the other places alone: the places' indices (`nonzero`), the values there, the
layers on `[rows, features]`, and the results put into a tensor of the number. A product with a mask of 0 and 1 is such
a place, too, where what it hides is a number for every input (`magnitudes`). The answer is that of the original for
every mask and every value, NaN in the padding and samples without a valid row included. A mask that is the same for the
whole batch leaves `[batch, rows, features]`.

Weights of each sample's own, which `split_target_attention` makes of DIN's first layer, are taken apart again: rows of
many samples are one product by `[k, q*k]`, which needs no such weights.

How many rows there are is known at run time only, so that an engine compiles for any number. It pays where a good
share is masked: measurement decides. Refuses layers whose results are needed elsewhere too, what does not work row by
row, and masks that leave too little work to save. Masks that no input decides are not looked at
(`skip_masked_scores`), nor masks that are added: there a row that is masked entirely shows what stood in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import fx
from torch.utils import _pytree as pytree

from optimizer.optimizing.base import Pass, PassOptions, Report, register_pass
from optimizer.optimizing.graph import Graph, same_size
from optimizer.optimizing.magnitudes import largest
from optimizer.optimizing.matching import one, scalar
from optimizer.optimizing.valid_row_rules import Rebuilt, Weight, at_valid_rows
from optimizer.optimizing.valid_rows import At, Count, Frame, KnownRows, Masked, ValidRows

aten = torch.ops.aten
FILLS = (
    aten.masked_fill.Scalar,
    aten.masked_fill.Tensor,
    aten.where.self,
    aten.where.ScalarOther,
    aten.where.ScalarSelf,
)
CASTS = (aten.to.dtype, aten._to_copy.default, aten.type_as.default)
ADDED = (aten.unsqueeze.default, aten.expand.default, aten.expand_as.default)  # dimensions
NEGATIONS = (aten.bitwise_not.default, aten.logical_not.default)


@register_pass
class SkipPaddedRows(Pass):
    name = "skip_padded_rows"
    title = "Skip the padding of sequences"
    summary = "Layers in front of a mask are computed for the rows that it shows only: padded to jagged and back."
    numerics: ClassVar[Literal["exact", "reassociates"]] = "reassociates"
    order = 107

    class Options(PassOptions):
        min_work: int = Field(default=1024, ge=1, description="multiply-adds of a row that are saved, at least")

    def apply(self, graph: Graph, options: Options, report: Report) -> None:
        known: KnownRows = {}
        for node in graph.operations(*FILLS, aten.mul.Tensor):
            fill = _zeroed(graph, node) if graph.is_op(node, aten.mul) else _read(graph, node)
            if fill is None or not _decided_by_input(fill.mask):
                continue
            plan = _planned(graph, fill)
            reason = _misfit(graph, fill, plan, options)
            if reason is None:
                _Rows(graph, fill, plan, known).run(report)
            elif plan.members or not fill.product:
                report.refused(node, reason)


@dataclass(frozen=True)
class _Fill:
    """`node` is `value` where `mask` is `shown`, else `number`. `axes`: the mask's own dimensions in `node`."""

    node: fx.Node
    value: fx.Node
    mask: fx.Node
    shown: bool
    number: float
    axes: tuple[int, ...]
    masked: Masked
    product: bool = False  # with 0 or 1, which hands on what is no number


def _read(graph: Graph, node: fx.Node) -> _Fill | None:
    """The fill at this node; None for one that is no number, or that broadcasts the value."""
    given = graph.arguments(node)
    if graph.is_op(node, aten.masked_fill):
        mask, value, other, shown = given["mask"], given["self"], given["value"], False
    else:
        mask, value, other, shown = given["condition"], given["self"], given["other"], True
        if not _fills(graph, node, value):
            value, other, shown = other, value, False
    number = scalar(graph, other)
    if number is None or not _fills(graph, node, value):
        return None
    return _filled(graph, node, value, mask, shown, number)


def _zeroed(graph: Graph, node: fx.Node) -> _Fill | None:
    """The product with a bool, one that became a number, or one that got dimensions afterwards."""
    for value, factor in (node.args[:2], node.args[:2][::-1]):
        if not _fills(graph, node, value) or not _is_bool(graph, factor):
            continue
        mask: Any = factor
        while graph.is_op(mask, *CASTS) and graph.dtype(mask) != torch.bool:
            mask = mask.args[0]
        if graph.dtype(mask) != torch.bool:
            mask = graph.call(aten.ne.Scalar, mask, 0, before=node, like=node)
        found = _filled(graph, node, value, mask, True, 0.0)
        return None if found is None else replace(found, product=True)
    return None


def _is_bool(graph: Graph, node: Any) -> bool:
    while graph.is_op(node, *CASTS, *ADDED):
        node = node.args[0]
    return graph.is_tensor(node) and graph.dtype(node) == torch.bool


def _filled(graph: Graph, node: fx.Node, value: fx.Node, mask: fx.Node, shown: bool, number: float) -> _Fill | None:
    if graph.dtype(mask) != torch.bool:
        return None
    lead = len(graph.shape(node)) - len(graph.shape(mask))
    axes = tuple(lead + dim for dim, size in enumerate(graph.shape(mask)) if not one(size))
    if not axes:
        return None
    while graph.is_op(mask, *NEGATIONS):
        mask, shown = mask.args[0], not shown
    if graph.dtype(mask) != torch.bool:
        return None
    return _Fill(node, value, mask, shown, number, axes, Masked(tuple(graph.shape(node)[axis] for axis in axes)))


def _fills(graph: Graph, node: fx.Node, value: object) -> bool:
    if not (isinstance(value, fx.Node) and graph.is_tensor(value)):
        return False
    return graph.same_shape(graph.shape(value), graph.shape(node)) and graph.dtype(value) == graph.dtype(node)


def _decided_by_input(mask: fx.Node) -> bool:
    """By values of an input, not by its sizes alone."""
    seen, waiting = {mask}, [mask]
    while waiting:
        node = waiting.pop()
        if node.op == "placeholder":
            return True
        fresh = [] if node.target is aten.sym_size.int else [n for n in node.all_input_nodes if n not in seen]
        seen.update(fresh)
        waiting += fresh
    return False


# ---- which operations are done row by row ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Plan:
    """`members`: the operations to be done on rows, in graph order. `sources`: what they read of the dense graph."""

    members: dict[fx.Node, Rebuilt]
    sources: list[At]
    stopped: str | None

    @property
    def work(self) -> int:
        return sum(rebuilt.work for rebuilt in self.members.values())


def _planned(graph: Graph, fill: _Fill) -> _Plan:
    """From the masked value up: whatever works row by row and is needed by such operations alone."""
    members: dict[fx.Node, Rebuilt] = {}
    wanted: dict[fx.Node, list[At]] = {fill.value: [At(fill.value, Frame(fill.axes[0]))]}
    stopped = None
    if not _side_by_side(fill.axes):
        return _Plan({}, [], "the mask's dimensions do not stand side by side")
    for node in reversed(graph.nodes):
        if node not in wanted:
            continue
        inside = node is fill.value or all(user in members for user in node.users)
        frame, *others = {at.frame for at in wanted[node]}
        if node.op != "call_function" or others or not fill.masked.is_whole(graph, node, frame):
            continue
        if not inside:
            stopped = stopped or f"{node.name} is needed elsewhere too"
            continue
        rebuilt = at_valid_rows(graph, node, frame, fill.masked)
        if isinstance(rebuilt, str):
            stopped = stopped or f"{node.name}: {rebuilt}"
            continue
        operands = _marked(rebuilt)
        if not all(fill.masked.fits(graph, at) for at in operands):
            stopped = stopped or f"{node.name}: its operands do not lie along the mask's dimensions"
            continue
        members[node] = rebuilt
        for at in operands:
            wanted.setdefault(at.node, []).append(at)
    sources = [at for ats in wanted.values() for at in ats if at.node not in members]
    return _Plan(dict(reversed(members.items())), sources, stopped)


def _side_by_side(axes: tuple[int, ...]) -> bool:
    return axes == tuple(range(axes[0], axes[-1] + 1))


def _marked(rebuilt: Rebuilt) -> list[At]:
    leaves = pytree.tree_leaves((rebuilt.args, rebuilt.kwargs))
    inside = [at for leaf in leaves if isinstance(leaf, Rebuilt) for at in _marked(leaf)]
    return [*(leaf for leaf in leaves if isinstance(leaf, At)), *inside]


def _misfit(graph: Graph, fill: _Fill, plan: _Plan, options: SkipPaddedRows.Options) -> str | None:
    if plan.work < options.min_work:
        because = f" ({plan.stopped})" if plan.stopped else ""
        return f"{plan.work} multiply-adds a row are computed row by row, below min_work {options.min_work}{because}"
    if len(fill.value.users) > 1:
        return f"{fill.value.name} is needed elsewhere too ({len(fill.value.users)} users)"
    if fill.product and not math.isfinite(largest(graph, fill.value)):
        return f"{fill.value.name} may be no number in the padding, and a product with 0 hands that on"
    if any(_place(graph, fill, plan, size) is None for size in graph.shape(fill.node)):
        return "a size of the masked value is computed"
    return None


def _place(graph: Graph, fill: _Fill, plan: _Plan, size: Any) -> int | tuple[fx.Node, int] | None:
    """A size as a number, or as a dimension of a value that stays."""
    if isinstance(size, int):
        return size
    for source in (*graph.inputs, fill.mask, *(at.node for at in plan.sources)):
        for dim, other in enumerate(graph.shape(source) if graph.is_tensor(source) else ()):
            if not isinstance(other, int) and same_size(other, size):
                return source, dim
    return None


# ---- rewriting -------------------------------------------------------------------------------------------------------


class _Rows:
    """Emits the operations on rows in front of the fill."""

    def __init__(self, graph: Graph, fill: _Fill, plan: _Plan, known: KnownRows) -> None:
        self.graph, self.fill, self.plan = graph, fill, plan
        self.rows = ValidRows(graph, fill.masked, fill.mask, fill.shown, fill.node, known)
        self.emitted: dict[fx.Node, fx.Node] = {}

    def run(self, report: Report) -> None:
        graph, fill = self.graph, self.fill
        for node, rebuilt in self.plan.members.items():
            self.emitted[node] = self._built(rebuilt, node)
        sizes = [self._size(size) for size in graph.shape(fill.node)]
        like = {"dtype": graph.dtype(fill.node), "device": graph.value(fill.node).device}
        full = self.rows.call(aten.full.default, sizes, fill.number, **like)
        whole = self.rows.put(self.emitted[fill.value], fill.axes[0], full)
        layers = sum(rebuilt.work > 0 for rebuilt in self.plan.members.values())
        what = f"{layers} layers, {self.plan.work} multiply-adds a row, for the rows that {fill.mask.name} shows"
        report.applied(fill.node, what)
        graph.replace(fill.node, whole)

    def _built(self, rebuilt: Rebuilt, like: fx.Node) -> fx.Node:
        def operand(given: Any) -> Any:
            if isinstance(given, Rebuilt):
                return self._built(given, like)
            if isinstance(given, At):
                return self.emitted[given.node] if given.node in self.emitted else self.rows.of(given)
            if isinstance(given, Weight):
                return self.graph.constant(given.value, given.name)
            return self.rows.count if isinstance(given, Count) else given

        args, kwargs = pytree.tree_map(operand, (rebuilt.args, rebuilt.kwargs))
        if rebuilt.target is None:
            (same,) = args
            assert isinstance(same, fx.Node)
            return same
        return self.graph.call(rebuilt.target, *args, before=self.fill.node, like=like, **kwargs)

    def _size(self, size: Any) -> int | fx.Node:
        place = _place(self.graph, self.fill, self.plan, size)
        assert place is not None, "_misfit() asks before"
        return place if isinstance(place, int) else self.rows.call(aten.sym_size.int, *place)
