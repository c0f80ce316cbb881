"""A captured graph to ask questions of: who uses a node, where a value comes from, what share of the time nodes take.

Times are a profile's, by operation, module and line: nodes that agree in all three share their row's time evenly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

from optimizer.capturing.outline import Outline, OutlineNode
from optimizer.result import Profile

COPIES = frozenset({"contiguous", "clone", "detach", "alias", "lift_fresh_copy"})
CASTS = frozenset({"to", "_to_copy", "type_as"})
PERMUTES = frozenset({"permute", "transpose", "t"})
MOST_SOURCES = 20
Key = tuple[str, str | None, str | None]


class GraphView:
    """One outline, indexed. Without a profile no node has a time."""

    def __init__(self, outline: Outline, profile: Profile | None = None) -> None:
        self.nodes: Sequence[OutlineNode] = outline.nodes
        self.outputs = frozenset(outline.outputs)
        self._by_name = {node.name: node for node in outline.nodes}
        self._users: dict[str, list[OutlineNode]] = {}
        for node in outline.nodes:
            for name in dict.fromkeys(node.takes):
                self._users.setdefault(name, []).append(node)
        self._times = _Times(outline, profile) if profile is not None else None

    def calls(self, *ops: str) -> list[OutlineNode]:
        return [node for node in self.nodes if node.kind == "call" and (not ops or node.op in ops)]

    def takes(self, node: OutlineNode) -> list[OutlineNode]:
        return [self._by_name[name] for name in node.takes if name in self._by_name]

    def first(self, node: OutlineNode) -> OutlineNode | None:
        return next(iter(self.takes(node)), None)

    def users(self, node: OutlineNode) -> list[OutlineNode]:
        return self._users.get(node.name, [])

    def up(self, node: OutlineNode, through: Callable[[OutlineNode], bool]) -> OutlineNode:
        """The first node, from this one on towards the inputs along first arguments, that `through` does not let by."""
        while node.kind == "call" and through(node) and (before := self.first(node)) is not None:
            node = before
        return node

    def is_constant(self, node: OutlineNode) -> bool:
        """A weight, or a view, copy or cast of one."""
        return self.up(node, lambda one: one.view or one.op in (COPIES | CASTS | PERMUTES)).kind == "weight"

    def share(self, nodes: Iterable[OutlineNode]) -> float | None:
        """Of the time; None where the profile knows none of them."""
        return self._times.share(nodes) if self._times is not None else None


class _Times:
    def __init__(self, outline: Outline, profile: Profile) -> None:
        self._count = Counter(_key(node) for node in outline.nodes if node.kind == "call")
        self._shares: dict[Key, float] = {}
        for row in profile.operations:
            if row.source is not None or row.module is not None:
                key = (row.op, row.module, row.source)
                self._shares[key] = self._shares.get(key, 0.0) + row.share

    def share(self, nodes: Iterable[OutlineNode]) -> float | None:
        found = [self._shares[key] / self._count[key] for node in nodes if (key := _key(node)) in self._shares]
        return min(1.0, sum(found)) if found else None


def _key(node: OutlineNode) -> Key:
    return node.op, node.module, node.source


def sources(nodes: Iterable[OutlineNode]) -> list[str]:
    """The user's lines, by file and then by number."""
    return sorted({node.source for node in nodes if node.source}, key=by_line)[:MOST_SOURCES]


def by_line(source: str) -> tuple[str, int]:
    file, _, line = source.rpartition(":")
    return file, int(line) if line.isdigit() else 0


def at(places: Sequence[str], most: int = 3) -> str:
    """`, at model.py:9, model.py:31 and 2 more`; empty without places."""
    if not places:
        return ""
    more = len(places) - most
    return f", at {', '.join(places[:most])}" + (f" and {more} more" if more > 0 else "")


def counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def moved_bytes(view: GraphView, nodes: Collection[OutlineNode]) -> int:
    """What these read and write, each by itself: nothing for views."""
    moving = [node for node in nodes if not node.view]
    return sum(node.bytes + sum(one.bytes for one in view.takes(node)) for node in moving)
