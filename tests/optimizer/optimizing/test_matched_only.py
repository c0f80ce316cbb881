"""Passes that are asked only what they find say so, and the file that is saved has none of it."""

from __future__ import annotations

from pathlib import Path

import torch

from optimizer.optimizing.child import rewrite_pt2
from tests.optimizer.optimizing.support import export


class Norm(torch.nn.Module):
    """A norm written out, of what is computed twice."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(x) + torch.relu(x)
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def saved(tmp_path: Path, matched_only: list[str]) -> tuple[dict[str, int], set[str]]:
    """How many places each pass found, and what is called in the file that was saved (nothing where there is none)."""
    model, out = tmp_path / "model.pt2", tmp_path / "out.pt2"
    torch.export.save(export(Norm(), torch.randn(4, 8)), model)
    passes = [{"pass": "fuse_operations"}, {"pass": "eliminate_common_subexpressions"}]
    rewrites, _ = rewrite_pt2(model, passes, out, matched_only=matched_only)
    called: set[str] = set()
    if out.exists():
        called = {str(node.target) for node in torch.export.load(out).graph.nodes if node.op == "call_function"}
    return {one.pass_: len(one.applied) for one in rewrites}, called


def test_a_pass_that_runs_leaves_its_operation_in_the_file(tmp_path: Path) -> None:
    found, called = saved(tmp_path, [])
    assert found == {"fuse_operations": 1, "eliminate_common_subexpressions": 1}
    assert any("rms_norm" in name for name in called)


def test_one_that_is_only_matched_tells_the_same_place_and_leaves_the_file_alone(tmp_path: Path) -> None:
    found, called = saved(tmp_path, ["fuse_operations"])
    assert found == {"fuse_operations": 1, "eliminate_common_subexpressions": 1}
    assert "aten.rsqrt.default" in called and not any("rms_norm" in name for name in called)


def test_where_nothing_else_applies_no_file_is_saved(tmp_path: Path) -> None:
    found, called = saved(tmp_path, ["fuse_operations", "eliminate_common_subexpressions"])
    assert sum(found.values()) == 2
    assert called == set()
