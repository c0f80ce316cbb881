"""The outline of a captured graph: sizes under the workload's names, views told from copies, plain arguments."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from optimizer.capturing import torch_outline
from optimizer.capturing.outline import Outline, OutlineNode
from tests.optimizer.capturing.uploads import capture, line_of, module

BODY = """
def __init__(self):
    super().__init__()
    self.l = nn.Linear(8, 6)

def forward(self, x):
    y = self.l(x).reshape(-1, 2, 3)
    return y.transpose(1, 2).contiguous().to(torch.float64) * 2
"""


def outline(tmp_path: Path) -> Outline:
    found = capture(module(tmp_path, BODY), tmp_path / "s").outline
    assert found is not None
    return found


def test_nodes_have_sizes_dtypes_lines_and_modules(tmp_path: Path) -> None:
    nodes = {node.name: node for node in outline(tmp_path).nodes}
    linear = nodes["linear"]
    assert (linear.op, linear.module, linear.takes[0], linear.dtype) == ("linear", "l", "x", "float32")
    assert linear.source == f"model.py:{line_of(tmp_path / 'model.py', 'self.l(x)')}"
    assert (linear.shape, linear.sizes, linear.bytes) == (["batch", 6], [16, 6], 16 * 6 * 4)
    assert (nodes["x"].kind, nodes["p_l_weight"].kind) == ("input", "weight")
    assert nodes["to"].given["dtype"] == "float64" and nodes["to"].dtype == "float64"
    assert nodes["transpose"].given == {"dim0": 1, "dim1": 2}


def test_what_moves_no_memory_is_a_view(tmp_path: Path) -> None:
    views = {node.op: node.view for node in outline(tmp_path).nodes if node.kind == "call"}
    assert views == {
        "linear": False, "reshape": True, "transpose": True, "contiguous": False, "to": False, "mul": False,
    }  # fmt: skip


def test_outputs_are_named_and_assertions_are_left_out(tmp_path: Path) -> None:
    found = outline(tmp_path)
    assert found.outputs == [found.nodes[-1].name] and found.nodes[-1].op == "mul"
    assert not any("assert" in node.op for node in found.nodes)


def test_a_graph_with_very_many_nodes_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_outline, "MAX_NODES", 8)  # this one has nine: an input, two weights, six operations
    assert capture(module(tmp_path, BODY), tmp_path / "s").outline is None
    monkeypatch.setattr(torch_outline, "MAX_NODES", 9)
    assert capture(module(tmp_path, BODY), tmp_path / "t").outline is not None


def test_an_answer_whose_nodes_go_in_circles_is_refused() -> None:
    a, b = OutlineNode(name="a", kind="call", takes=["b"]), OutlineNode(name="b", kind="call", takes=["a"])
    with pytest.raises(ValidationError, match="no node before it"):
        Outline(nodes=[a, b])
    with pytest.raises(ValidationError, match="there twice"):
        Outline(nodes=[OutlineNode(name="a", kind="input")] * 2)
