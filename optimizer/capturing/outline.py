"""The captured graph as data: what each node computes, from what, how large, and on which of the user's lines.

For those who read a graph without torch (rules of the diagnosis). Not for rewriting: weights and values are not in it.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

MAX_NODES = 20_000  # some 6 MB as JSON; a larger graph has no outline, and no rule looks at it
ELEMENT_BYTES = {
    "float64": 8, "int64": 8, "complex64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2,
}  # fmt: skip


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class OutlineNode(_Model):
    """`op` as profiles name it (`linear`). `takes`: the nodes among the arguments, in order. `given`: those arguments
    that are plain values, by their names in the operation's schema. Of several results the first tells shape and
    dtype."""

    name: str
    kind: Literal["input", "weight", "call"]
    op: str = ""
    module: str | None = None
    source: str | None = None
    takes: list[str] = Field(default_factory=list)
    given: dict[str, Any] = Field(default_factory=dict)
    shape: list[int | str] = Field(default_factory=list, description="dynamic sizes by the workload's names")
    sizes: list[int | None] = Field(default_factory=list, description="as measured; null: depends on values")
    dtype: str | None = Field(default=None, description="null: the result is no tensor")
    view: bool = Field(default=False, description="it moves no memory: its result shares the first argument's")

    @property
    def elements(self) -> int:
        """At the measured sizes; 0 where the result is no tensor or its size depends on values."""
        if self.dtype is None:
            return 0
        count = 1
        for size in self.sizes:
            count *= size or 0
        return count

    @property
    def bytes(self) -> int:
        return self.elements * ELEMENT_BYTES.get(self.dtype or "", 1)


class Outline(_Model):
    """Nodes in the order of the graph. `outputs`: those that are handed back."""

    nodes: list[OutlineNode] = Field(default_factory=list, max_length=MAX_NODES)
    outputs: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _in_order(self) -> Outline:
        """Whoever walks along `takes` must come to an end: a child's answer is a stranger's."""
        known: set[str] = set()
        for node in self.nodes:
            if node.name in known:
                raise ValueError(f"node {node.name[:80]!r} is there twice")
            strange = next((name for name in node.takes if name not in known), None)
            if strange is not None:
                raise ValueError(f"node {node.name[:80]!r} takes {strange[:80]!r}, which is no node before it")
            known.add(node.name)
        return self
