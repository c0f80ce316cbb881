"""Names the first operation at which a rewritten graph departs from the original. Both are run in float64.

In float64 rounding does not hide a wrong rewrite, so any difference is one of meaning. Operations are paired by name;
what a rewrite added has no namesake and is found by the first old operation behind it. Not for ONNX graphs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule, Interpreter, Node

from optimizer.verifying.reference import TorchReference

DIFFERENCE = 1e-9


class _Recorder(Interpreter):
    """Runs a graph and keeps every tensor by the name of its node."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module, garbage_collect_values=True)
        self.seen: dict[str, torch.Tensor] = {}

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if n.op == "call_function" and isinstance(value, torch.Tensor):
            self.seen[n.name] = value.clone()
        return value


def first_difference(original: Path, rewritten: Path, arrays: list[np.ndarray]) -> str | None:
    """`operation (node, file:line)` of the rewritten graph, or None when all namesakes agree."""
    true, mine = _record(original, arrays), _record(rewritten, arrays)
    nodes = {node.name: node for node in mine.module.graph.nodes}
    for name, value in mine.seen.items():
        namesake = true.seen.get(name)
        if namesake is not None and _differ(value, namesake):
            return _words(nodes[name])
    return None


def _record(path: Path, arrays: list[np.ndarray]) -> _Recorder:
    reference = TorchReference(path)
    recorder = _Recorder(reference.module)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            recorder.run(*reference.stage(arrays))
    finally:
        torch.set_default_dtype(before)
    return recorder


def _differ(value: torch.Tensor, namesake: torch.Tensor) -> bool:
    if value.shape != namesake.shape or value.dtype != namesake.dtype:
        return False  # a rewrite gave the name to something else: nothing to compare
    if not value.is_floating_point():
        return not torch.equal(value, namesake)
    spread = float(namesake.std(correction=0)) if namesake.numel() else 0.0
    return not torch.allclose(value, namesake, rtol=DIFFERENCE, atol=DIFFERENCE * (spread or 1.0), equal_nan=True)


def _words(node: Node) -> str:
    frames = [line.strip() for line in (node.stack_trace or "").splitlines() if line.strip().startswith("File ")]
    place = ""
    if frames:
        file, line = frames[-1].removeprefix("File ").split(", ")[:2]
        place = f", {Path(file.strip(chr(34))).name}:{line.removeprefix('line ')}"
    return f"{node.target} ({node.name}{place})"
