"""Batch is dynamic where torch.export accepts it, else static with a note; dimensions asked for are exact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from optimizer.errors import FuseworksError
from tests.optimizer.capturing.uploads import Answer, capture, line_of, module

PLAIN = """
def __init__(self):
    super().__init__()
    self.l = nn.Linear(8, 4)

def forward(self, x):
    return self.l(x)
"""


def program(answer: Answer) -> torch.export.ExportedProgram:
    return torch.export.load(str(answer.files["captured.pt2"]))


def run(answer: Answer, *inputs: torch.Tensor) -> Any:
    return program(answer).module()(*inputs)


def test_batch_is_dynamic_from_one_to_the_larger_of_2048_and_four_samples(tmp_path: Path) -> None:
    answer = capture(module(tmp_path, PLAIN), tmp_path / "s")
    assert answer.workload.inputs[0].shape == ["batch", 8]
    assert answer.workload.dims["batch"].model_dump() == {"serve": [16], "min": 1, "max": 2048}
    assert answer.inspection["dynamic"] == ["batch"]
    for size in (1, 2, 8, 2048):
        assert run(answer, torch.randn(size, 8)).shape == (size, 4)
    large = capture(module(tmp_path, PLAIN, inputs="[torch.randn(1000, 8)]"), tmp_path / "l")
    assert large.workload.dims["batch"].max == 4000


def test_a_sample_batch_of_one_or_of_another_dimensions_size_is_no_obstacle(tmp_path: Path) -> None:
    for size in (1, 8):
        answer = capture(module(tmp_path, PLAIN, inputs=f"[torch.randn({size}, 8)]"), tmp_path / str(size))
        assert answer.workload.dims["batch"].serve == [size]
        assert run(answer, torch.randn(5, 8)).shape == (5, 4)


def test_only_inputs_that_share_the_first_ones_dim_0_are_batched(tmp_path: Path) -> None:
    body = "def forward(self, x, weight, y):\n    return x @ weight + y"
    inputs = "[torch.randn(16, 8), torch.randn(8, 4), torch.randn(16, 4)]"
    answer = capture(module(tmp_path, body, inputs=inputs), tmp_path / "s")
    assert [i.shape for i in answer.workload.inputs] == [["batch", 8], [8, 4], ["batch", 4]]


def test_square_matrices_do_not_share_a_batch(tmp_path: Path) -> None:
    path = module(
        tmp_path, "def forward(self, a, b):\n    return a @ b", inputs="[torch.randn(6, 6), torch.randn(6, 6)]"
    )
    answer = capture(path, tmp_path / "s")
    assert [i.shape for i in answer.workload.inputs] == [[6, 6], [6, 6]]
    (note,) = answer.inspection["notes"]
    assert note.startswith("Shapes are static") and f"model.py:{line_of(path, 'return a @ b')}" in note


def test_a_batch_size_in_the_code_makes_shapes_static_and_the_note_says_where(tmp_path: Path) -> None:
    path = module(tmp_path, "def forward(self, x):\n    return x.view(16, 2, 4).sum(1)")
    answer = capture(path, tmp_path / "s")
    assert answer.workload.inputs[0].shape == [16, 8] and answer.workload.dims == {}
    (note,) = answer.inspection["notes"]
    assert "batch" in note and f"model.py:{line_of(path, 'x.view(16')}" in note
    assert run(answer, torch.randn(16, 8)).shape == (16, 4)


def test_a_range_that_the_code_needs_is_taken_over(tmp_path: Path) -> None:
    body = "def forward(self, x):\n    if x.shape[0] < 4:\n        raise ValueError('few')\n    return x * 2"
    answer = capture(module(tmp_path, body), tmp_path / "s")
    assert answer.workload.dims["batch"].min == 4


def workload(shape: list[int | str], **dims: dict[str, Any]) -> dict[str, Any]:
    return {"inputs": [{"name": "x", "dtype": "float32", "shape": shape}], "dims": dims}


def test_dimensions_asked_for_are_dynamic_exactly(tmp_path: Path) -> None:
    path = module(tmp_path, "def forward(self, x):\n    return x.cumsum(1)", inputs="[torch.randn(16, 8)]")
    asked = workload(
        ["rows", "steps"],
        rows={"serve": [32, 8], "min": 2, "max": 64},
        steps={"serve": [10], "min": 1, "max": 12},
    )
    answer = capture(path, tmp_path / "s", workload=asked)
    assert answer.workload.inputs[0].shape == ["rows", "steps"]
    assert answer.workload.dims["rows"].model_dump() == {"serve": [32, 8], "min": 2, "max": 64}
    assert sorted((int(v.lower), int(v.upper)) for v in program(answer).range_constraints.values()) == [
        (1, 12),
        (2, 64),
    ]
    assert run(answer, torch.ones(3, 12))[0, -1] == 12
    with pytest.raises(AssertionError):
        run(answer, torch.ones(3, 13))


def test_a_dimension_with_one_size_only_is_static(tmp_path: Path) -> None:
    asked = workload(["batch", 8], batch={"serve": [16], "min": 16, "max": 16})
    answer = capture(module(tmp_path, PLAIN), tmp_path / "s", workload=asked)
    assert answer.inspection["dynamic"] == []
    assert not program(answer).range_constraints


def test_a_dimension_asked_for_that_the_code_fixes_is_refused_with_its_line(tmp_path: Path) -> None:
    path = module(tmp_path, "def forward(self, x):\n    return x.view(16, 2, 4).sum(1)")
    asked = workload(["batch", 8], batch={"serve": [16], "min": 1, "max": 64})
    with pytest.raises(FuseworksError) as caught:
        capture(path, tmp_path / "s", workload=asked)
    error = caught.value
    assert (error.id, error.place) == ("capturing:user:dim-refused", f"model.py:{line_of(path, 'x.view(16')}")
    assert "batch" in error.message and "every size" in error.remedy


def test_a_range_asked_for_that_is_too_wide_is_refused_with_the_one_that_fits(tmp_path: Path) -> None:
    body = "def forward(self, x):\n    if x.shape[0] < 4:\n        raise ValueError('few')\n    return x * 2"
    asked = workload(["batch", 8], batch={"serve": [16], "min": 1, "max": 64})
    with pytest.raises(FuseworksError) as caught:
        capture(module(tmp_path, body), tmp_path / "s", workload=asked)
    assert caught.value.id == "capturing:user:dim-refused"
    assert "batch within [4, 64]" in caught.value.message and "Declare this range" in caught.value.remedy


def test_the_sources_and_modules_of_operations_survive_saving(tmp_path: Path) -> None:
    path = module(tmp_path, PLAIN)
    (node,) = [n for n in program(capture(path, tmp_path / "s")).graph.nodes if "linear" in n.name]
    assert f'model.py", line {line_of(path, "return self.l(x)")}' in node.meta["stack_trace"]
    assert [name for name, _ in node.meta["nn_module_stack"].values()] == ["", "l"]
