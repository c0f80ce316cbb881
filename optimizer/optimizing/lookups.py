"""Finds embedding lookups with constant tables, however they are written, for passes that merge or move them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from optimizer.optimizing.graph import Graph, same_size
from optimizer.optimizing.matching import Column, column, one, skip_noops

aten = torch.ops.aten
_MAX_MODE = 2
Refuse = Callable[[fx.Node, str], None]


@dataclass(frozen=True)
class Lookup:
    """`result` is `weight[ids]`, or for a bag the reduction of it over the ids' last dimension."""

    node: fx.Node
    result: fx.Node
    table: fx.Node
    weight: torch.Tensor
    ids: fx.Node
    ids_kept: bool  # ids have a last dimension of size 1 that the tables' dimension replaces
    result_kept: bool  # so has the result, before its width
    column: Column | None  # ids are one index along that dimension
    bag_length: int | None
    bag_mode: int
    kind: tuple[Any, ...]  # equal kinds can be merged

    @property
    def width(self) -> int:
        return int(self.weight.shape[1])


def find_lookups(graph: Graph, refuse: Refuse) -> list[Lookup]:
    """In graph order; lookups that no pass can use are refused with the reason."""
    found = []
    for node in graph.nodes:
        if getattr(node.target, "overloadpacket", None) not in (aten.embedding, aten.embedding_bag):
            continue
        if node in graph.tainted:
            refuse(node, "the table or the ids are written in place (max_norm renormalises the table)")
            continue
        lookup = _lookup(graph, node) if graph.is_op(node, aten.embedding) else _bag(graph, node)
        if isinstance(lookup, str):
            refuse(node, lookup)
        elif lookup is not None:
            found.append(lookup)
    return found


def _weight(graph: Graph, node: object) -> torch.Tensor | str:
    value = graph.constant_value(node)
    if value is None:
        return "the table is not constant"
    return value


def _lookup(graph: Graph, node: fx.Node) -> Lookup | str:
    arguments = graph.arguments(node)
    weight, ids = _weight(graph, arguments["weight"]), arguments["indices"]
    if isinstance(weight, str):
        return weight
    kept = len(graph.shape(ids)) > 1 and one(graph.shape(ids)[-1])
    return _make(graph, node, node, arguments["weight"], weight, ids, kept, kept, None, 0)


def _bag(graph: Graph, node: fx.Node) -> Lookup | str | None:
    arguments = graph.arguments(node)
    weight = _weight(graph, arguments["weight"])
    if isinstance(weight, str):
        return weight
    used = [u for u in node.users if u.users]
    if not used or any(u.target is not operator.getitem or u.args[1] != 0 for u in used):
        return "more than the bags' values are used" if used else None
    if arguments["per_sample_weights"] is not None:
        return "the bag weighs its ids"
    if arguments.get("padding_idx") is not None and arguments["padding_idx"] >= 0:
        return "the bag leaves out padding_idx"
    if arguments["include_last_offset"]:
        return "the bags may have varying lengths"
    ids = _rows_of_equal_bags(graph, arguments["indices"], arguments["offsets"])
    if ids is None:
        return "the bags may have varying lengths"
    length = graph.shape(ids)[1]
    if not isinstance(length, int):
        return "the bags' length is dynamic"
    (result,) = used
    single = length == 1 and arguments["mode"] != _MAX_MODE
    bag = None if single else length
    return _make(graph, node, result, arguments["weight"], weight, ids, single, False, bag, arguments["mode"])


def _rows_of_equal_bags(graph: Graph, indices: fx.Node, offsets: object) -> fx.Node | None:
    """The [batch, bag] ids that F.embedding_bag flattened, when the offsets step by the bag's length."""
    flat = graph.is_op(indices, aten.reshape, aten.view, aten.flatten)
    if not flat or not graph.is_op(offsets, aten.arange.start_step):
        return None
    ids = indices.args[0]
    arguments = graph.arguments(offsets)  # type: ignore[arg-type]
    if not isinstance(ids, fx.Node) or len(graph.shape(ids)) != 2:
        return None
    batch, length = graph.shape(ids)
    bags = graph.shape(offsets)[0]  # type: ignore[arg-type]
    fits = (
        arguments["start"] == 0
        and isinstance(arguments["step"], int)
        and same_size(arguments["step"], length)
        and graph.same_shape([bags], [batch])
    )
    return ids if fits else None


def _make(
    graph: Graph,
    node: fx.Node,
    result: fx.Node,
    table: fx.Node,
    weight: torch.Tensor,
    ids: fx.Node,
    ids_kept: bool,
    result_kept: bool,
    bag: int | None,
    mode: int,
) -> Lookup:
    ids = skip_noops(graph, ids)
    shape = graph.shape(ids)
    lead = shape[:-1] if ids_kept else shape
    axis = len(lead) if bag is None else len(lead) - 1
    found = column(graph, ids)
    usable = found is not None and found.dim == axis and found.kept == ids_kept
    reduced = (bag, mode) if bag is not None else None
    kind = (weight.dtype, int(weight.shape[1]), graph.dtype(ids), tuple(map(str, lead)), reduced)
    return Lookup(node, result, table, weight, ids, ids_kept, result_kept, found if usable else None, bag, mode, kind)
