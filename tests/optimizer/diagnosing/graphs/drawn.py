"""Outlines by hand: a node a line, in float32 unless said otherwise, each on a line of its own."""

from __future__ import annotations

from typing import Any

from optimizer.capturing.outline import Outline, OutlineNode
from optimizer.diagnosing.base import Evidence
from optimizer.result import Operation, Profile
from optimizer.spec import Workload


class Drawing:
    def __init__(self) -> None:
        self.nodes: list[OutlineNode] = []

    def add(
        self, name: str, op: str = "", takes: str = "", sizes: tuple[int | None, ...] = (4, 8), **more: Any
    ) -> Drawing:
        """`op`: empty for an input, `weight` for a weight."""
        kind = {"": "input", "weight": "weight"}.get(op, "call")
        given = {key: more.pop(key) for key in list(more) if key not in OutlineNode.model_fields}
        line = {"source": f"model.py:{len(self.nodes) + 1}"} if kind == "call" else {}
        fields = {"dtype": "float32", "shape": list(sizes), "sizes": list(sizes), "given": given, **line, **more}
        self.nodes.append(
            OutlineNode(name=name, kind=kind, op=op if kind == "call" else "", takes=takes.split(), **fields)
        )
        return self

    def outline(self, *outputs: str) -> Outline:
        return Outline(nodes=self.nodes, outputs=list(outputs or (self.nodes[-1].name,) if self.nodes else ()))

    def profile(self, **self_ms: float) -> Profile:
        """By node; what is not named takes no time."""
        total = sum(self_ms.values())
        rows = [
            Operation(
                op=node.op, source=node.source, calls=1, self_ms=self_ms[node.name], share=self_ms[node.name] / total
            )
            for node in self.nodes
            if node.name in self_ms
        ]
        return Profile(operations=rows, total_ms=total, unprofiled_ms=total)

    def evidence(self, *outputs: str, **more: Any) -> Evidence:
        given = {"profile": None, "rewrites": (), "dynamic_batch": True} | more
        return Evidence(outline=self.outline(*outputs), **given)


def workload(inputs: list[dict[str, Any]], **dims: Any) -> Workload:
    return Workload.model_validate({"inputs": inputs, "dims": dims})
