"""A batched product with constant weights becomes one linear layer for each lane: per-token networks, experts.

`y[:, t] = x[:, t] W_t + b_t` written as bmm or einsum over [T, D, H] becomes T linear layers, whose weights an engine
packs once and whose bias and activation it fuses; batched products get neither on CPUs. A chain of such products with
constants added and activations between them stays apart, lane by lane, to its end, where the lanes are stacked.

Weights are cut from their own values: rounding is the engine's alone. Not where weights are computed, where there are
more lanes than `max_lanes`, or where an output reads more than its own lane. On a GPU one batched kernel is the better
form: measurement decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import fx

from optimizer.optimizing.base import Pass, PassOptions, Report, register_pass
from optimizer.optimizing.graph import Graph
from optimizer.optimizing.matching import only_user
from optimizer.optimizing.products import PRODUCTS, read_product

aten = torch.ops.aten
ACTIVATIONS = (
    aten.relu.default,
    aten.gelu.default,
    aten.silu.default,
    aten.sigmoid.default,
    aten.tanh.default,
    aten.leaky_relu.default,
    aten.elu.default,
    aten.hardtanh.default,
)


@register_pass
class SplitBatchedLinears(Pass):
    name = "split_batched_linears"
    title = "Split batched linear layers"
    summary = "A batched product with constant weights becomes one linear layer for each of its lanes."
    numerics: ClassVar[Literal["exact", "reassociates"]] = "exact"
    order = 85

    class Options(PassOptions):
        min_lanes: int = Field(default=2, ge=2, description="lanes, at least")
        max_lanes: int = Field(default=64, ge=2, description="lanes, at most: each adds nodes to the graph")

    def apply(self, graph: Graph, options: Options, report: Report) -> None:
        done: set[fx.Node] = set()
        for node in graph.operations(*PRODUCTS):
            if node in done:
                continue
            batched = _read(graph, node)
            if isinstance(batched, str):
                report.refused(node, batched)
            elif batched is not None:
                if options.min_lanes <= batched.lanes <= options.max_lanes:
                    done |= _Chain(graph, batched).run(report)
                else:
                    reason = f"{batched.lanes} lanes, not {options.min_lanes} to {options.max_lanes}"
                    report.refused(node, reason)


@dataclass(frozen=True)
class _Batched:
    """`weights` is [lanes, out, in]. `axis`: the lanes' dimension of the source and of the result, both of rank 3;
    `flipped`: features stand before the rows."""

    node: fx.Node
    source: fx.Node
    weights: torch.Tensor
    axis: int
    flipped: bool
    out_axis: int
    out_flipped: bool

    @property
    def lanes(self) -> int:
        return int(self.weights.shape[0])


def _read(graph: Graph, node: fx.Node) -> _Batched | str | None:
    """The layer at this node; a reason for a near miss; None when neither operand is constant, or both."""
    product = read_product(graph, node)
    if product is None:
        return None
    values = [graph.constant_value(operand) for operand in product.operands]
    if (values[0] is None) == (values[1] is None):
        return None
    at = 0 if values[0] is not None else 1
    weight, source = values[at], product.operands[1 - at]
    assert weight is not None
    w, x, out = product.letters[at], product.letters[1 - at], product.out
    lanes = [c for c in w if c in x and c in out]
    inside = [c for c in w if c in x and c not in out]
    features = [c for c in w if c not in x and c in out]
    rows = [c for c in x if c not in w and c in out]
    if len(lanes) != 1 or len(w) != 3:
        return None
    counts = (len(inside), len(features), len(rows), len(x), len(out))
    if counts != (1, 1, 1, 3, 3):
        return "it is no linear layer of one row of inputs for each lane"
    if weight.dtype != graph.dtype(node) or not weight.dtype.is_floating_point:
        return "the weight's dtype is not the output's"
    cut = weight.permute([w.index(c) for c in (*lanes, *features, *inside)])
    lane, feature, row, inner = lanes[0], features[0], rows[0], inside[0]
    return _Batched(
        node,
        source,
        cut,
        x.index(lane),
        x.index(inner) < x.index(row),
        out.index(lane),
        out.index(feature) < out.index(row),
    )


def _own(tensor: torch.Tensor) -> torch.Tensor:
    """A copy: a view would keep, and save, the memory of all lanes."""
    return tensor.clone(memory_format=torch.contiguous_format)


class _Chain:
    """Follows the lanes from the first product to where something else needs them together."""

    def __init__(self, graph: Graph, first: _Batched) -> None:
        self.graph, self.first = graph, first

    def run(self, report: Report) -> set[fx.Node]:
        batched: _Batched | None = self.first
        lanes = [self._lane(i) for i in range(self.first.lanes)]
        done: set[fx.Node] = set()
        end = self.first.node
        while batched is not None:
            done.add(batched.node)
            what = f"{batched.lanes} linear layers of {batched.weights.shape[2]} to {batched.weights.shape[1]} features"
            report.applied(batched.node, what)
            lanes, end = self._layer(batched, lanes)
            batched, lanes, end = self._between(batched, lanes, end)
        self._together(lanes, end)
        return done

    def _lane(self, index: int) -> fx.Node:
        """[rows, features] of the source."""
        part = self._call(self.first.node, aten.select.int, self.first.source, self.first.axis, index)
        return self._call(self.first.node, aten.t.default, part) if self.first.flipped else part

    def _layer(self, batched: _Batched, lanes: list[fx.Node]) -> tuple[list[fx.Node], fx.Node]:
        """The lanes' outputs [rows, features], and the node that they stand for: a bias that is added goes in."""
        self.out = batched
        node, stem = batched.node, batched.node.name
        added = self._added(batched.node)
        constants = None if added is None else added[1]
        outputs = []
        for index, lane in enumerate(lanes):
            weight = self.graph.constant(_own(batched.weights[index]), f"{stem}_weight_{index}")
            bias = None
            if constants is not None:
                value = constants[index].expand(batched.weights.shape[1])
                bias = self.graph.constant(_own(value), f"{stem}_bias_{index}")
            outputs.append(self._call(node, aten.linear.default, lane, weight, bias))
        return outputs, node if added is None else added[0]

    def _added(self, node: fx.Node) -> tuple[fx.Node, torch.Tensor] | None:
        """The only user when it adds a constant that is the same for every row; the constant as [lanes, features]."""
        graph, user = self.graph, only_user(node)
        if user is None or not graph.is_op(user, aten.add.Tensor) or graph.arguments(user)["alpha"] != 1:
            return None
        other = next((n for n in user.args[:2] if n is not node), None)
        value = graph.constant_value(other)
        if (
            value is None
            or value.dtype != graph.dtype(node)
            or not graph.same_shape(graph.shape(user), graph.shape(node))
        ):
            return None
        value = value.reshape([1] * (3 - value.dim()) + list(value.shape))
        by_lane = value.permute(self._out_order())
        if by_lane.shape[1] != 1:
            return None
        return user, by_lane[:, 0].expand(self.out.lanes, -1)

    def _out_order(self) -> list[int]:
        """The result's dimensions as lanes, rows, features."""
        rest = [d for d in range(3) if d != self.out.out_axis]
        return [self.out.out_axis, *(rest[::-1] if self.out.out_flipped else rest)]

    def _between(
        self, batched: _Batched, lanes: list[fx.Node], end: fx.Node
    ) -> tuple[_Batched | None, list[fx.Node], fx.Node]:
        """Over activations to the next product of the same lanes; without one, back to where the chain stood."""
        start, walked, node = end, [], end
        while (user := only_user(node)) is not None:
            if self.graph.is_op(user, *ACTIVATIONS) and user.args[0] is node:
                walked.append(user)
                node = user
                continue
            following = _read(self.graph, user) if self.graph.is_op(user, *PRODUCTS) else None
            fits = isinstance(following, _Batched) and following.source is node and self._same_lanes(following)
            if not fits or not isinstance(following, _Batched):
                break
            for activation in walked:
                lanes = [
                    self._call(activation, activation.target, lane, *activation.args[1:], **activation.kwargs)
                    for lane in lanes
                ]  # type: ignore[arg-type]
            return following, lanes, node
        return None, lanes, start

    def _same_lanes(self, following: _Batched) -> bool:
        return (
            following.axis == self.out.out_axis
            and following.flipped == self.out.out_flipped
            and following.lanes == self.out.lanes
        )

    def _together(self, lanes: list[fx.Node], end: fx.Node) -> None:
        if self.out.out_flipped:
            lanes = [self._call(end, aten.t.default, lane) for lane in lanes]
        self.graph.replace(end, self._call(end, aten.stack.default, lanes, self.out.out_axis))

    def _call(self, place: fx.Node, op: torch._ops.OpOverload, *args: object, **kwargs: object) -> fx.Node:
        return self.graph.call(op, *args, before=place, like=place, **kwargs)
