"""Exports tiny models, rewrites them and compares results; loads a saved program in a new process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

from optimizer.optimizing.base import run_passes
from optimizer.optimizing.graph import Graph
from optimizer.result import Rewrite

BATCH = Dim("batch", min=1, max=64)
TIME = Dim("time", min=2, max=48)
LOADER = """
import sys, torch, kernels
kernels.load()
program = torch.export.load(sys.argv[1])
inputs, expected = torch.load(sys.argv[2], weights_only=True)
leaves = torch.utils._pytree.tree_leaves(program.module()(*inputs))
torch.testing.assert_close(leaves, expected, rtol=1e-4, atol=1e-5)
print(len(leaves), "outputs equal")
"""


def export(model: nn.Module, *args: Any, dims: Any = None) -> ExportedProgram:
    with torch.no_grad():
        return torch.export.export(model.eval(), args, dynamic_shapes=dims)


def rewrite(exported: ExportedProgram, name: str, **options: Any) -> tuple[Rewrite, Graph]:
    graph = Graph.from_exported(exported)
    with torch.no_grad():
        (result,) = run_passes(graph, [(name, options)])
    return result, graph


def assert_equal_results(
    model: nn.Module, graph: Graph, *input_sets: tuple[Any, ...], tolerance: float = 1e-5, again: bool = True
) -> None:
    """The rewritten graph (`again`: exported again, which costs half a second) gives what the user's module gives."""
    program = graph.to_exported().module() if again else graph.module
    with torch.no_grad():
        for inputs in input_sets:
            expected, got = pytree.tree_leaves(model(*inputs)), pytree.tree_leaves(program(*inputs))
            assert len(expected) == len(got)
            for a, b in zip(expected, got, strict=True):
                torch.testing.assert_close(b, a, rtol=tolerance, atol=tolerance)


def assert_loads_elsewhere(model: nn.Module, graph: Graph, inputs: tuple[Any, ...], folder: Path) -> None:
    """Saved as .pt2, the rewritten program gives the module's results in a new process."""
    torch.export.save(graph.to_exported(), folder / "rewritten.pt2")
    with torch.no_grad():
        expected = [t.clone() for t in pytree.tree_leaves(model(*inputs))]
    torch.save((inputs, expected), folder / "expected.pt")
    command = [sys.executable, "-c", LOADER, str(folder / "rewritten.pt2"), str(folder / "expected.pt")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"{len(expected)} outputs equal" in done.stdout


def count(graph: Graph, *ops: Any) -> int:
    return len(graph.operations(*ops))


def reasons(sites: list[Any]) -> list[str]:
    return [site.reason for site in sites]
