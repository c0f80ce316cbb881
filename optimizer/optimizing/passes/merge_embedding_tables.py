"""Lookups in many embedding tables of one width become one lookup in one table: `E_i[x_i]` = `E[x_i + offset_i]`.

Lookups whose ids have one shape are merged: columns of one id tensor, separate inputs, sequences, and bags of one fixed
length. Where the results feed one cat or stack in order, the merged result is a view of it and the copy goes as well.
What the caller gets is copied out: two outputs never share memory that they did not share before.

An id outside its own table must not silently read a neighbour's row: each id is checked against its own table's rows
and one that is outside becomes an id outside the merged table, so that whatever the engine does there (PyTorch and
AOTInductor raise) still happens. `check_ids: false` drops the check where ids are checked elsewhere.

Not for tables that are written or renormalised (`max_norm`), bags with `padding_idx`, weights or varying length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import fx

from optimizer.optimizing.base import Pass, PassOptions, Report, register_pass
from optimizer.optimizing.graph import Graph, same_size
from optimizer.optimizing.lookups import Lookup, find_lookups
from optimizer.optimizing.matching import last_dim
from optimizer.optimizing.memory import handed_back, own_memory

aten = torch.ops.aten


@register_pass
class MergeEmbeddingTables(Pass):
    name = "merge_embedding_tables"
    title = "Merge embedding tables"
    summary = "Lookups in several embedding tables of one width become one lookup in one table."
    numerics: ClassVar[Literal["exact", "reassociates"]] = "exact"
    order = 90

    class Options(PassOptions):
        max_bytes: int = Field(default=268435456, ge=1, description="size of one merged table, at most")
        min_tables: int = Field(default=2, ge=2, description="lookups merged into one, at least")
        check_ids: bool = Field(
            default=True, description="ids outside their own table stay an error; four small operations"
        )

    def apply(self, graph: Graph, options: Options, report: Report) -> None:
        groups: dict[tuple[object, ...], list[Lookup]] = {}
        for lookup in find_lookups(graph, report.refused):
            groups.setdefault(lookup.kind, []).append(lookup)
        tables: dict[tuple[fx.Node, ...], fx.Node] = {}
        # most tables first: a later group whose tables are all in a merged one reads that
        for group in sorted(groups.values(), key=lambda g: -len({lookup.table for lookup in g})):
            members = _fitting(graph, group, options, report)
            if len(members) < options.min_tables:
                for lookup in members:
                    reason = f"only {len(members)} lookups of width {lookup.width} have ids of this shape"
                    report.refused(lookup.node, reason)
                continue
            _Merge(graph, _in_consumer_order(members), tables, options.check_ids).run(report)


def _fitting(graph: Graph, group: list[Lookup], options: MergeEmbeddingTables.Options, report: Report) -> list[Lookup]:
    """What may stand before the group's first lookup, within max_bytes; tables that are used twice count once."""
    nodes = {lookup.node for lookup in group}
    first, members, size = min(nodes), [], 0
    seen: set[fx.Node] = set()
    for lookup in group:
        more = 0 if lookup.table in seen else lookup.weight.nbytes
        if size + more > options.max_bytes:
            reason = f"the merged table would exceed max_bytes {options.max_bytes} by this table's {more}"
            report.refused(lookup.node, reason)
        elif not graph.hoist(lookup.ids, first, never=nodes):
            report.refused(lookup.node, "its ids are computed from an earlier lookup")
        else:
            members.append(lookup)
            seen.add(lookup.table)
            size += more
    return members


def _in_consumer_order(members: list[Lookup]) -> list[Lookup]:
    """The order in which a cat or stack takes the results, so that it becomes a view; else graph order."""
    positions: dict[fx.Node, tuple[fx.Node, int]] = {}
    for lookup in members:
        for user in lookup.result.users:
            if user.op == "call_function" and user.target in (aten.cat.default, aten.stack.default):
                operands = user.args[0]
                positions.setdefault(lookup.result, (user, list(operands).index(lookup.result)))  # type: ignore[arg-type]
    listed = sorted((m for m in members if m.result in positions), key=lambda m: positions[m.result])
    return listed + [m for m in members if m.result not in positions]


def _same_source(members: list[Lookup], at: int) -> int:
    """How many members from `at` on take columns of one tensor."""
    columns = [m.column for m in members[at:]]
    assert columns[0] is not None
    return next((i for i, c in enumerate(columns) if c is None or c.source is not columns[0].source), len(columns))


Tables = dict[tuple[fx.Node, ...], fx.Node]


class _Merge:
    """One group: builds the merged lookup before the first member and hands its parts to the users."""

    def __init__(self, graph: Graph, members: list[Lookup], tables: Tables, check: bool) -> None:
        self.graph, self.members, self.check = graph, members, check
        self.before = min(m.node for m in members)
        self.bag = members[0].bag_length
        self.tables = tables
        self.starts: dict[fx.Node, int] = {}
        self.rows = 0
        own = list(dict.fromkeys(member.table for member in members))
        self.key = next((key for key in tables if len(own) > 1 and set(own) <= set(key)), tuple(own))
        for table in self.key:
            self.starts[table] = self.rows
            self.rows += int(graph.shape(table)[0])

    def run(self, report: Report) -> None:
        merged = self._lookup()
        users = {user for member in self.members for user in member.result.users}
        for user in sorted(users):
            if self.graph.is_op(user, aten.cat.default, aten.stack.default):
                self._into_view(user, merged)
        for index, member in enumerate(self.members):
            what = f"lookup {index + 1} of {len(self.members)} in one table of {self.rows} rows, width {member.width}"
            report.applied(member.node, what)
            if member.result.users:
                part = self._part(merged, index, member)
                if handed_back(self.graph, member.result):
                    part = own_memory(self.graph, part, before=self.before, like=member.node)
                self.graph.replace(member.result, part)

    def _call(self, op: torch._ops.OpOverload, *args: object, **kwargs: object) -> fx.Node:
        return self.graph.call(op, *args, before=self.before, like=self.members[0].node, **kwargs)

    def _table(self) -> fx.Node:
        key = self.key
        if len(key) == 1 and self.graph.hoist(key[0], self.before):
            return key[0]
        if key not in self.tables:
            weights = {m.table: m.weight for m in self.members}
            joined = torch.cat([weights[table] for table in key])
            self.tables[key] = self.graph.constant(joined, f"{self.members[0].node.name}_table")
        return self.tables[key]

    def _lookup(self) -> fx.Node:
        """[..., tables, width]"""
        ids = self._shifted(self._stacked_ids())
        if self.bag is None:
            return self._call(aten.embedding.default, self._table(), ids)
        # [batch, tables, bag] → bags one after another, each of the same length
        flat = self._call(aten.reshape.default, ids, [-1])
        count = self._call(aten.sym_numel.default, ids)
        options = {"dtype": self.graph.dtype(ids), "device": ids.meta["val"].device, "pin_memory": False}
        offsets = self._call(aten.arange.start_step, 0, count, self.bag, **options)
        mode = self.members[0].bag_mode
        bags = self._call(aten.embedding_bag.default, self._table(), flat, offsets, False, mode)
        taken = self.graph.item(bags, 0, before=self.before, like=self.members[0].node)
        return self._call(aten.view.default, taken, [-1, len(self.members), self.members[0].width])

    def _stacked_ids(self) -> fx.Node:
        """Ids with one more dimension of size `tables`: the last one, or the one before a bag's."""
        axis = -1 if self.bag is None else -2
        parts: list[fx.Node] = []
        at = 0
        while at < len(self.members):
            member, length = self.members[at], 1
            if member.column is None:
                kept = member.ids_kept
                parts.append(member.ids if kept else self._call(aten.unsqueeze.default, member.ids, axis))
            else:
                length = _same_source(self.members, at)
                indices = [m.column.index for m in self.members[at : at + length] if m.column is not None]
                parts.append(self._columns_of(member.column.source, indices, axis))
            at += length
        return parts[0] if len(parts) == 1 else self._call(aten.cat.default, parts, axis)

    def _columns_of(self, source: fx.Node, indices: list[int], axis: int) -> fx.Node:
        size = self.graph.shape(source)[axis]
        first, last = indices[0], indices[-1]
        if indices != list(range(first, last + 1)):
            wanted = self.graph.constant(torch.tensor(indices), f"{self.members[0].node.name}_columns")
            return self._call(aten.index_select.default, source, axis, wanted)
        if first == 0 and same_size(size, last + 1):
            return source
        return self._call(aten.slice.Tensor, source, axis, first, last + 1)

    def _shifted(self, ids: fx.Node) -> fx.Node:
        """Ids of the merged table; an id outside its own table becomes `rows`, outside the merged one."""
        if len(self.starts) == 1:
            return ids
        dtype = self.graph.dtype(ids)
        if self.rows >= torch.iinfo(dtype).max:
            ids, dtype = self._call(aten.to.dtype, ids, torch.int64), torch.int64
        stem = self.members[0].node.name
        starts = self._per_table([self.starts[m.table] for m in self.members], dtype, f"{stem}_offsets")
        shifted = self._call(aten.add.Tensor, ids, starts)
        if not self.check:
            return shifted
        rows = self._per_table([m.weight.shape[0] for m in self.members], dtype, f"{stem}_rows")
        inside = self._call(
            aten.logical_and.default, self._call(aten.ge.Scalar, ids, 0), self._call(aten.lt.Tensor, ids, rows)
        )
        outside = self.graph.constant(torch.tensor(self.rows, dtype=dtype), f"{stem}_outside")
        return self._call(aten.where.self, inside, shifted, outside)

    def _per_table(self, values: Sequence[int], dtype: torch.dtype, name: str) -> fx.Node:
        tensor = torch.tensor(values, dtype=dtype)
        return self.graph.constant(tensor if self.bag is None else tensor[:, None], name)

    # ---- handing out ------------------------------------------------------------------------------------------------

    def _part(self, merged: fx.Node, index: int, member: Lookup) -> fx.Node:
        if member.result_kept:
            return self._call(aten.slice.Tensor, merged, -2, index, index + 1)
        return self._call(aten.select.int, merged, -2, index)

    def _into_view(self, user: fx.Node, merged: fx.Node) -> None:
        """Lets a cat or stack take runs of neighbours out of the merged result as views."""
        graph, operands = self.graph, list(user.args[0])  # type: ignore[arg-type]
        dim = graph.arguments(user)["dim"]
        stacks = user.target is aten.stack.default
        member = next(m for m in self.members if m.result in operands)
        rank = len(graph.shape(member.result)) + stacks
        dim = dim % rank
        flat = not stacks and last_dim(graph, member.result, dim)
        beside = (stacks or member.result_kept) and dim == rank - 2
        if not flat and not beside:
            return
        position = {m.result: i for i, m in enumerate(self.members)}
        parts: list[fx.Node] = []
        at = 0
        while at < len(operands):
            start = position.get(operands[at])
            if start is None:
                parts.append(self._before(user, aten.unsqueeze.default, operands[at], dim) if stacks else operands[at])
                at += 1
                continue
            length = 1
            while at + length < len(operands) and position.get(operands[at + length]) == start + length:
                length += 1
            parts.append(self._run(user, merged, start, length, flat and not beside))
            at += length
        whole = parts[0] if len(parts) == 1 else self._before(user, aten.cat.default, parts, dim)
        if len(parts) == 1 and handed_back(graph, user):
            whole = own_memory(graph, whole, before=user, like=user)
        graph.replace(user, whole)

    def _run(self, user: fx.Node, merged: fx.Node, start: int, length: int, flat: bool) -> fx.Node:
        run = merged
        if length < len(self.members):
            run = self._before(user, aten.slice.Tensor, merged, -2, start, start + length)
        if not flat:
            return run
        run = self._before(user, aten.flatten.using_ints, run, -2, -1)
        return self._before(user, aten.unsqueeze.default, run, -2) if self.members[start].result_kept else run

    def _before(self, user: fx.Node, op: torch._ops.OpOverload, *args: object) -> fx.Node:
        return self.graph.call(op, *args, before=user, like=user)
