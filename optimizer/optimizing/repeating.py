"""Rewrites a graph for a batch in which the promised inputs have one row only, many times over.

From these inputs forward, whatever keeps equal rows equal (`rows`) is computed for a single row. Where such a value
meets one that varies it is broadcast: by the operation itself where that broadcasts, else expanded. Joined along
features (`joined`), the two kinds stay apart for as long as what follows can take them one by one.

The result is right for batches that keep the promise, and for no others.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

import optimizer.optimizing.row_values
import optimizer.optimizing.row_views  # noqa: F401  (they file their rules)
from optimizer.optimizing.aliasing import shares_memory
from optimizer.optimizing.graph import Graph, ShapeChanged, same_size
from optimizer.optimizing.matching import one
from optimizer.optimizing.rows import BOTH, Once, Size, Treatment, treatment

aten = torch.ops.aten
Refuse = Callable[[fx.Node, str], None]
FAILURES = (RuntimeError, ValueError, TypeError, IndexError, AssertionError)


class Repeating:
    """Walks a graph once, front to back. `known`: the values that repeat, by the node that they had."""

    def __init__(self, graph: Graph, promised: list[fx.Node], refuse: Refuse) -> None:
        self.graph, self.promised, self.refuse = graph, promised, refuse
        self.known: dict[fx.Node, Once] = {}
        self.lazy: dict[fx.Node, Any] = {}  # Joined or Products
        self.once: list[fx.Node] = []  # the operations that are now done for one row
        self.split: list[tuple[fx.Node, str]] = []  # the layers that were taken apart, and into what
        self._expanded: dict[fx.Node, fx.Node] = {}

    def run(self) -> None:
        calls = [n for n in self.graph.nodes if n.op == "call_function"]
        for node in self.promised if calls else []:
            row = self.graph.call(aten.slice.Tensor, node, 0, 0, 1, before=calls[0], like=node)
            self.known[node] = Once(row, 0)
        for node in calls:
            self._visit(node)
        (output,) = (n for n in self.graph.nodes if n.op == "output")
        handed = {n: self._own(n, output) for n in output.all_input_nodes if n in self.known or n in self.lazy}
        output.args = fx.node.map_arg(output.args, lambda n: handed.get(n, n))

    def repeats(self, node: object) -> bool:
        return isinstance(node, fx.Node) and (node in self.known or node in self.lazy)

    # ---- one operation ---------------------------------------------------------------------------------------------

    def _visit(self, node: fx.Node) -> None:
        from optimizer.optimizing.joined import handled

        operands = [n for n in node.all_input_nodes if self.repeats(n)]
        known_kind = isinstance(node.target, torch._ops.OpOverload) or node.target is operator.getitem
        if not operands or not known_kind:
            return  # what is left as it is keeps what it needs of the original
        if node in self.graph.tainted:
            self.refuse(node, "it shares memory with something that is written in place")
            return
        if node.target is not operator.getitem and not self._leaves(node):
            self._size_of(node)
        elif node.target is operator.getitem:
            self._item(node)
        elif not handled(self, node):
            known = {n: self.known[n] for n in operands if n in self.known}
            found = treatment(self.graph, node, known) if len(known) == len(operands) else BOTH
            if isinstance(found, str) or not self._for_one_row(node, found):
                self._for_all_rows(node, found)

    def _item(self, node: fx.Node) -> None:
        source, index = node.args[:2]
        found = self.known.get(source)  # type: ignore[arg-type]
        if found is not None and isinstance(index, int):
            row = self.graph.item(found.node, index, before=node, like=node)
            self.known[node] = Once(row, found.axis, found.inner)

    def _size_of(self, node: fx.Node) -> None:
        size = self._input_size(self.graph.value(node), node)
        if size is not None:
            node.replace_all_uses_with(size)

    def _for_one_row(self, node: fx.Node, found: Treatment) -> bool:
        """Emits the operation on single rows. False when that does not give a single row of the result."""
        args = self._arguments(node, found)
        if args is None:
            return False
        fresh = self.emit(found.target or node.target, *args, before=node, **self._keywords(node, found))
        if fresh is None:
            return False
        wanted, got = self._leaves(node)[: found.results], self._leaves(fresh)[: found.results]
        if len(wanted) == len(got) and all(map(lambda a, b: self._is_row(a, b, found), wanted, got)):
            self.known[node] = Once(fresh, found.axis, found.inner)
            if not shares_memory(node):
                self.once.append(node)
            return True
        return self.stand_in(node, fresh)

    def _arguments(self, node: fx.Node, found: Treatment) -> tuple[Any, ...] | None:
        args = self._single(node.args)
        if found.sizes == "view":
            sizes = self._sizes(node, found.axis, found.inner)
            return None if sizes is None else (args[0], sizes)
        if found.sizes == "expand":
            source = self.graph.shape(node.args[0])  # type: ignore[arg-type]
            sizes = self._sizes(node, found.axis, -1, kept=source)
            return None if sizes is None else (args[0], sizes)
        if found.first is not None:
            place = list(self.graph.arguments(node)).index(found.first)
            one_entry = self.graph.call(aten.slice.Tensor, args[place], 0, 0, 1, before=node, like=node)
            return (*args[:place], one_entry, *args[place + 1 :])
        return args

    def _keywords(self, node: fx.Node, found: Treatment) -> dict[str, Any]:
        return {} if found.sizes else dict(self._single(node.kwargs))

    def _single(self, args: Any) -> Any:
        return fx.node.map_arg(args, lambda n: self.known[n].node if n in self.known else n)

    @staticmethod
    def _is_row(whole: torch.Tensor, row: torch.Tensor, found: Treatment) -> bool:
        """Whether `row` has the shape of one row of `whole`, and not the whole one's."""
        if len(whole.shape) != len(row.shape) or whole.dtype != row.dtype:
            return False
        wanted = [*whole.shape[: found.axis], found.inner, *whole.shape[found.axis + 1 :]]
        return all(same_size(a, b) for a, b in zip(wanted, row.shape, strict=True))

    def _leaves(self, node: fx.Node) -> list[torch.Tensor]:
        return [v for v in pytree.tree_leaves(self.graph.value(node)) if isinstance(v, torch.Tensor)]

    def _for_all_rows(self, node: fx.Node, reason: str | Treatment) -> None:
        """What repeats is broadcast by a product that can, and expanded for any other operation."""
        if node.target in (aten.bmm.default, aten.matmul.default) and self._product(node):
            return
        if node.target is aten.einsum.default and reason == BOTH:
            fresh = self.emit(aten.einsum.default, *self._single(node.args), before=node)
            if fresh is not None and self.stand_in(node, fresh):
                return
        if isinstance(reason, str) and reason != BOTH:
            self.refuse(node, reason)
        args, kwargs = fx.node.map_arg(
            (node.args, node.kwargs), lambda n: self.whole(n, node) if self.repeats(n) else n
        )
        fresh = self.emit(node.target, *args, before=node, **kwargs)
        if fresh is not None and self.stand_in(node, fresh):  # else it keeps what it had
            self.graph.module.graph.erase_node(node)  # by itself a draw of random numbers would not be swept

    def _product(self, node: fx.Node) -> bool:
        """`[batch, m, k] @ [1, k, n]` is one product of batch*m rows; so is its mirror image."""
        left, right = node.args[:2]
        ranks = [len(self.graph.shape(n)) for n in (left, right)]  # type: ignore[arg-type]
        if ranks != [3, 3] or self.repeats(left) == self.repeats(right):
            return False
        found = self.known.get(left if self.repeats(left) else right)  # type: ignore[arg-type]
        if found is None or found.axis != 0 or not one(found.inner):
            return False
        row = self.graph.call(aten.select.int, found.node, 0, 0, before=node, like=node)
        if self.repeats(right):
            fresh = self.emit(aten.matmul.default, left, row, before=node)
        else:
            turned = self.graph.call(aten.transpose.int, right, 1, 2, before=node, like=node)
            across = self.graph.call(aten.t.default, row, before=node, like=node)
            fresh = self.emit(aten.matmul.default, turned, across, before=node)
            if fresh is not None:
                fresh = self.graph.call(aten.transpose.int, fresh, 1, 2, before=node, like=node)
        if fresh is None or not self.stand_in(node, fresh):
            return False
        self.split.append((node, "one product of all rows by what repeats"))
        return True

    # ---- what others need ------------------------------------------------------------------------------------------

    def emit(self, target: Any, *args: Any, before: fx.Node, **kwargs: Any) -> fx.Node | None:
        """The call, or None where these operands do not fit it."""
        last = before.prev
        try:
            return self.graph.call(target, *args, before=before, like=before, **kwargs)
        except FAILURES:
            if before.prev is not last:
                self.graph.module.graph.erase_node(before.prev)
        if target is aten.view.default:
            return self.emit(aten.reshape.default, *args, before=before, **kwargs)
        return None

    def stand_in(self, node: fx.Node, fresh: fx.Node) -> bool:
        try:
            self.graph.replace(node, fresh)
        except ShapeChanged:
            return False
        return True

    def whole(self, node: fx.Node, before: fx.Node) -> fx.Node:
        """The value for all rows, of a node that repeats (in part)."""
        if node in self.promised:
            return node
        if node not in self._expanded:
            lazy = self.lazy.get(node)
            self._expanded[node] = lazy.whole(self, before) if lazy else self.expanded(self.known[node], before)
        return self._expanded[node]

    def expanded(self, once: Once, before: fx.Node) -> fx.Node:
        row, rank = once.node, len(self.graph.shape(once.node))
        if not one(once.inner):
            row, rank = self.graph.call(aten.unsqueeze.default, row, once.axis, before=before), rank + 1
        sizes: list[Any] = [-1] * rank
        sizes[once.axis] = self._batch(before)
        wide = self.graph.call(aten.expand.default, row, sizes, before=before, like=before)
        if one(once.inner):
            return wide
        return self.graph.call(aten.flatten.using_ints, wide, once.axis, once.axis + 1, before=before)

    def _own(self, node: fx.Node, output: fx.Node) -> fx.Node:
        """What is handed back has memory of its own, as every row of the original's answer has."""
        wide = self.whole(node, output)
        if node in self.promised:
            return wide
        return self.graph.call(aten.clone.default, wide, memory_format=torch.contiguous_format, before=output)

    def _batch(self, before: fx.Node) -> Any:
        return self.graph.size(self.promised[0], 0, before=before)

    def _input_size(self, size: Any, before: fx.Node) -> fx.Node | None:
        for source in self.graph.inputs:
            for index, other in enumerate(self.graph.shape(source) if self.graph.is_tensor(source) else ()):
                if not isinstance(other, int) and same_size(other, size):
                    return self.graph.call(aten.sym_size.int, source, index, before=before)
        return None

    def _sizes(self, node: fx.Node, axis: int, here: Size, kept: Any = None) -> list[Any] | None:
        """The result's sizes as arguments, `here` along the batch. `kept`: the operand's shape, of an expansion, where
        -1 means that a dimension stays."""
        shape = self.graph.shape(node)
        lead = len(shape) - len(kept) if kept is not None else 0
        sizes: list[Any] = []
        free = kept is None  # one size of a view may be left to be worked out
        for dim, size in enumerate([*shape[:axis], here, *shape[axis + 1 :]]):
            if isinstance(size, int):
                sizes.append(size)
            elif kept is not None and dim >= lead and same_size(kept[dim - lead], size):
                sizes.append(-1)
            elif (known := self._input_size(size, node)) is not None:
                sizes.append(known)
            elif free:
                sizes, free = [*sizes, -1], False
            else:
                return None
        return sizes
