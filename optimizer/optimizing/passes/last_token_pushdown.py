"""Computes only the position that is used: `logits[:, -1]` of a decoder, `hidden[:, 0]` of an encoder.

The selection moves up through all that works position by position (linear layers, norms, residual sums, reshapes) and
into attention's queries, so that the last layer's queries, output projection, MLP and the head run for one position.
Keys and values stay whole, and what they need stays whole. Causal attention of the last query needs no mask.

Stops where positions mix (a convolution, a scan) and where another position is used as well. Not for a position that
differs from sample to sample (`x[range, lengths - 1]`).
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import fx

from optimizer.optimizing.base import Pass, Report, register_pass
from optimizer.optimizing.graph import Graph, same_size
from optimizer.optimizing.matching import dim_of, one
from optimizer.optimizing.positions import HEAVY, Mixes, Rebuilt, Sliced, at_one_position, register_fused_operations

aten = torch.ops.aten
_END = torch.iinfo(torch.int64).max


@register_pass
class LastTokenPushdown(Pass):
    name = "last_token_pushdown"
    title = "Compute only the used position"
    summary = "Where one position of a sequence is used, the layers behind it run for that position only."
    numerics: ClassVar[Literal["exact", "reassociates"]] = "exact"
    order = 80

    def apply(self, graph: Graph, options: Any, report: Report) -> None:
        register_fused_operations()
        by_index: dict[int, list[_Root]] = {}
        for node in graph.operations(aten.select.int, aten.slice.Tensor):
            root = _root(graph, node)
            if root is not None:
                by_index.setdefault(root.index, []).append(root)
        for index, roots in by_index.items():
            _Pushdown(graph, index, roots).run(report)


@dataclass(frozen=True)
class _Root:
    """`x[..., index, ...]`: the selection and what it selects from."""

    node: fx.Node
    source: fx.Node
    dim: int
    index: int  # -1 is the last position, however it was written


def _root(graph: Graph, node: fx.Node) -> _Root | None:
    arguments = graph.arguments(node)
    source = arguments["self"]
    if source.op != "call_function" or not graph.dtype(source).is_floating_point or len(graph.shape(source)) < 2:
        return None
    dim = dim_of(graph, source, arguments["dim"])
    size = graph.shape(source)[dim]
    if node.target is aten.select.int:
        index = arguments["index"]
    else:
        index, end = arguments["start"], arguments["end"]
        if not one(graph.shape(node)[dim]) or arguments["step"] != 1:
            return None
        if index is None:
            index = 0
        if index == -1 and not (end is None or (isinstance(end, int) and (end == _END or same_size(end, size)))):
            return None
    if not isinstance(index, int) or one(size):
        return None
    if isinstance(size, int) and index % size == size - 1:
        index = -1
    elif isinstance(size, int):
        index %= size
    return _Root(node, source, dim, index)


class _Pushdown:
    """All selections of one position: plans what is computed at it alone, then builds that."""

    def __init__(self, graph: Graph, index: int, roots: list[_Root]) -> None:
        self.graph, self.index, self.roots = graph, index, roots
        self.rebuilt: dict[fx.Node, Rebuilt] = {}
        self.dims: dict[fx.Node, int] = {}
        self.mixing: dict[fx.Node, str] = {}
        self.built: dict[fx.Node, fx.Node] = {}
        self.order = {node: place for place, node in enumerate(graph.nodes)}

    def run(self, report: Report) -> None:
        whole = self._plan()
        # not a node of another graph that happens to be cheap: only with a matrix product among them is it worth it
        alone = [n for n in self.rebuilt if n not in whole]
        heavy = sorted((n for n in alone if self.graph.is_op(n, *HEAVY)), key=self.order.__getitem__)
        for root in self.roots:
            self._tell(root, whole, report)
        if not heavy:
            return
        for node in heavy:
            where = "the last position" if self.index == -1 else f"position {self.index}"
            report.applied(node, f"{_short(node)} runs for {where} only")
        for root in sorted(self.roots, key=lambda r: self.order[r.node]):
            if root.source not in whole and root.source in self.rebuilt:
                self._replace(root, whole)

    def _tell(self, root: _Root, whole: set[fx.Node], report: Report) -> None:
        """A near miss: the last position of a sequence of vectors, right behind something that stands in the way."""
        likely = self.index == -1 and len(self.graph.shape(root.source)) >= 3 and root.dim > 0
        if not likely or not self._something_heavy_behind(root.source):
            return
        others = [u for u in root.source.users if u not in {r.node for r in self.roots}]
        if root.source in self.mixing:
            report.refused(root.node, f"{root.source.name}: {self.mixing[root.source]}")
        elif root.source in whole and others:
            report.refused(root.node, f"{root.source.name} is used at other positions, too ({others[0].name})")

    def _something_heavy_behind(self, node: fx.Node) -> bool:
        seen, pending = {node}, [node]
        while pending:
            one_node = pending.pop()
            if self.graph.is_op(one_node, *HEAVY):
                return True
            fresh = [n for n in one_node.all_input_nodes if n not in seen]
            seen.update(fresh)
            pending += fresh
        return False

    # ---- planning ---------------------------------------------------------------------------------------------------

    def _plan(self) -> set[fx.Node]:
        """Fills `rebuilt` and `dims`; gives the nodes that are needed at every position."""
        conflicts: set[fx.Node] = set()
        pending = [(root.source, root.dim) for root in self.roots]
        while pending:
            node, dim = pending.pop()
            if node in self.dims:
                if self.dims[node] != dim:
                    conflicts.add(node)
                continue
            self.dims[node] = dim
            producer, _ = self._producer(node)
            if self.dims.setdefault(producer, dim) != dim:
                conflicts.add(node)  # two outputs of one operation, along different dimensions
                continue
            answer = at_one_position(self.graph, producer, dim, self.index == -1)
            if isinstance(answer, Mixes):
                self.mixing[node] = answer.reason
                continue
            self.rebuilt[node] = self.rebuilt[producer] = answer
            pending += [(s.node, s.dim) for s in _sliced(answer)]
        return self._needed_whole(conflicts)

    def _producer(self, node: fx.Node) -> tuple[fx.Node, int | None]:
        """The operation behind a node, and which of its outputs the node is."""
        if node.op == "call_function" and node.target is operator.getitem:
            return node.args[0], node.args[1]  # type: ignore[return-value]
        return node, None

    def _needed_whole(self, conflicts: set[fx.Node]) -> set[fx.Node]:
        """From the end of the graph up: a node is needed whole when a user needs all of it."""
        roots = {root.node for root in self.roots}
        whole = set(conflicts)
        for node in reversed(self.graph.nodes):
            if node in conflicts or node not in self.rebuilt:
                whole.add(node)
                continue
            if not all(u in roots or self._content_with_one(u, node, whole) for u in node.users):
                whole.add(node)
        return whole

    def _content_with_one(self, user: fx.Node, node: fx.Node, whole: set[fx.Node]) -> bool:
        if self.graph.is_op(user, aten.sym_size.int):
            return True
        if user in whole or user not in self.rebuilt:
            return False
        if self._producer(user)[0] is node:
            return True  # one output of it
        wants = [s.dim for s in _sliced(self.rebuilt[user]) if s.node is node]
        return set(wants) == {self.dims[node]} and node not in _kept(self.rebuilt[user])

    # ---- building ---------------------------------------------------------------------------------------------------

    def _replace(self, root: _Root, whole: set[fx.Node]) -> None:
        new = self._at(Sliced(root.source, root.dim), root.node, whole)
        if root.node.target is aten.select.int:
            new = self.graph.call(aten.select.int, new, root.dim, 0, before=root.node, like=root.node)
        self.graph.replace(root.node, new)

    def _at(self, wanted: Sliced, before: fx.Node, whole: set[fx.Node]) -> fx.Node:
        """The node at the position: rebuilt from its inputs at theirs, or cut out of the whole."""
        pending = [wanted]
        while pending:
            node = pending[-1].node
            if node in self.built:
                pending.pop()
                continue
            producer, output = self._producer(node)
            if node in whole or (producer in whole and output is not None):
                self.built[node] = self._cut(pending.pop(), before)
                continue
            rebuilt = self.rebuilt[node]
            missing = [s for s in _sliced(rebuilt) if s.node not in self.built]
            if missing:
                pending += missing
                continue
            self.built[node] = self._build(node, producer, output, rebuilt, before)
        return self.built[wanted.node]

    def _cut(self, wanted: Sliced, before: fx.Node) -> fx.Node:
        end = _END if self.index == -1 else self.index + 1
        source = wanted.node
        return self.graph.call(aten.slice.Tensor, source, wanted.dim, self.index, end, before=before, like=source)

    def _build(
        self, node: fx.Node, producer: fx.Node, output: int | None, rebuilt: Rebuilt, before: fx.Node
    ) -> fx.Node:
        args, kwargs = _resolved(rebuilt, self.built)
        if output is None:
            return self.graph.call(rebuilt.target, *args, before=before, like=node, **kwargs)
        if producer not in self.built:
            self.built[producer] = self.graph.call(rebuilt.target, *args, before=before, like=producer, **kwargs)
        return self.graph.item(self.built[producer], output, before=before, like=node)


def _leaves(rebuilt: Rebuilt) -> list[Any]:
    found: list[Any] = []

    def walk(value: Any) -> None:
        if isinstance(value, list | tuple):
            for inner in value:
                walk(inner)
        else:
            found.append(value)

    walk(rebuilt.args)
    walk(list(rebuilt.kwargs.values()))
    return found


def _sliced(rebuilt: Rebuilt) -> list[Sliced]:
    return [leaf for leaf in _leaves(rebuilt) if isinstance(leaf, Sliced)]


def _kept(rebuilt: Rebuilt) -> set[fx.Node]:
    return {leaf for leaf in _leaves(rebuilt) if isinstance(leaf, fx.Node)}


def _resolved(rebuilt: Rebuilt, built: dict[fx.Node, fx.Node]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    def walk(value: Any) -> Any:
        if isinstance(value, Sliced):
            return built[value.node]
        return type(value)(walk(inner) for inner in value) if isinstance(value, list | tuple) else value

    return tuple(walk(a) for a in rebuilt.args), {k: walk(v) for k, v in rebuilt.kwargs.items()}


def _short(node: fx.Node) -> str:
    return str(node.target).removeprefix("aten.").removesuffix(".default")
