"""`.pt2` uploads: the graph as saved, dimensions from its symbols."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import kernels
from optimizer.errors import FuseworksError
from tests.optimizer.capturing.uploads import capture


class Ranker(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(30, 4)
        self.l = nn.Linear(4, 2)

    def forward(self, dense: torch.Tensor, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.l(dense + self.table(ids).sum(1))
        return {"score": x, "best": x.argmax(-1)}


def saved(folder: Path, *, dims: Any = None, model: nn.Module | None = None, inputs: Any = None, **named: Any) -> Path:
    inputs = inputs or (torch.randn(6, 4), torch.randint(0, 9, (6, 5)))
    program = torch.export.export((model or Ranker()).eval(), inputs, named or None, dynamic_shapes=dims)
    path = folder / "ranker.pt2"
    torch.export.save(program, str(path))
    return path


def dynamic(**more: Any) -> Any:
    batch = Dim("rows", min=1, max=500)
    return {"dense": {0: batch}, "ids": {0: batch, **more}}


def test_dimensions_come_from_the_symbols_and_their_ranges(tmp_path: Path) -> None:
    path = saved(tmp_path, dims=dynamic(**{}))
    answer = capture(path, tmp_path / "s")
    assert [(i.name, i.dtype, i.shape) for i in answer.workload.inputs] == [
        ("dense", "float32", ["batch", 4]),
        ("ids", "int64", ["batch", 5]),
    ]
    assert answer.workload.dims["batch"].model_dump() == {"serve": [6], "min": 1, "max": 500}
    assert answer.values["ids"] == {"below": 30}
    assert answer.inspection["parameters"] == 30 * 4 + 4 * 2 + 2
    assert answer.inspection["outputs"] == [
        {"name": "score", "dtype": "float32", "shape": ["batch", 2]},
        {"name": "best", "dtype": "int64", "shape": ["batch"]},
    ]


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    path = saved(tmp_path, dims=dynamic())
    first = capture(path, tmp_path / "a")
    again = capture(first.files["captured.pt2"], tmp_path / "b")
    assert again.workload == first.workload
    x = (torch.randn(3, 4), torch.randint(0, 30, (3, 5)))
    wanted = torch.export.load(str(path)).module()(*x)
    got = torch.export.load(str(again.files["captured.pt2"])).module()(*x)
    assert torch.equal(got[0], wanted["score"]) and torch.equal(got[1], wanted["best"])


def test_several_dimensions_get_names_of_their_own(tmp_path: Path) -> None:
    batch, length = Dim("b", min=1, max=64), Dim("t", min=2, max=32)
    path = saved(tmp_path, dims={"dense": {0: batch}, "ids": {0: batch, 1: length}})
    answer = capture(path, tmp_path / "s")
    assert answer.workload.inputs[1].shape == ["batch", "dim1"]
    assert answer.workload.dims["dim1"].model_dump() == {"serve": [5], "min": 2, "max": 32}


def test_the_users_workload_names_the_dimensions_and_narrows_them(tmp_path: Path) -> None:
    path = saved(tmp_path, dims=dynamic())
    asked = {
        "inputs": [
            {"name": "features", "dtype": "float32", "shape": ["rows", 4]},
            {"name": "items", "dtype": "int64", "shape": ["rows", 5], "values": {"zipf": 1.1}},
        ],
        "dims": {"rows": {"serve": [100], "min": 2, "max": 200}},
    }
    answer = capture(path, tmp_path / "s", workload=asked)
    assert answer.workload.dims["rows"].max == 200 and answer.values["items"] == {"zipf": 1.1, "below": 30}
    program = torch.export.load(str(answer.files["captured.pt2"]))
    assert list(program.graph_signature.user_inputs) == ["features", "items"]


@pytest.mark.parametrize(
    ("shape", "dims", "text"),
    [
        (["rows", 4], {"rows": {"serve": [100], "max": 501}}, "'rows' within [1, 501] is more than the graph takes"),
        (["rows", "width"], {"rows": {"serve": [9], "max": 9}, "width": {"serve": [4], "max": 9}}, "has shape"),
        ([6], {}, "is float32 [6]"),
    ],
)
def test_a_workload_that_the_graph_cannot_take_is_refused(
    shape: list[Any], dims: dict[str, Any], text: str, tmp_path: Path
) -> None:
    path = saved(tmp_path, dims=dynamic())
    ids = {"name": "ids", "dtype": "int64", "shape": [shape[0], 5]}
    asked = {"inputs": [{"name": "dense", "dtype": "float32", "shape": shape}, ids], "dims": dims}
    with pytest.raises(FuseworksError) as caught:
        capture(path, tmp_path / "s", workload=asked)
    assert caught.value.id == "capturing:user:workload-mismatch" and text in caught.value.message


def test_keyword_and_nested_inputs_become_flat_positional_ones(tmp_path: Path) -> None:
    class Nested(nn.Module):
        def forward(self, pair: tuple[torch.Tensor, torch.Tensor], *, scale: torch.Tensor) -> torch.Tensor:
            return (pair[0] - pair[1]) * scale

    x, y, s = torch.randn(4, 3), torch.randn(4, 3), torch.randn(3)
    answer = capture(saved(tmp_path, model=Nested(), inputs=((x, y),), scale=s), tmp_path / "s")
    assert len(answer.workload.inputs) == 3
    module = torch.export.load(str(answer.files["captured.pt2"])).module()
    assert torch.equal(module(x, y, s), (x - y) * s)


def test_a_decomposed_graph_is_kept_as_it_is(tmp_path: Path) -> None:
    program = torch.export.export(Ranker().eval(), (torch.randn(6, 4), torch.randint(0, 9, (6, 5))))
    torch.export.save(program.run_decompositions(), str(tmp_path / "d.pt2"))
    answer = capture(tmp_path / "d.pt2", tmp_path / "s")
    assert answer.workload.inputs[0].shape == [6, 4] and answer.values["ids"] == {"below": 30}
    assert "aten.addmm" in answer.inspection["operations"]


def test_a_file_without_samples_is_filled_by_dtype_and_table(tmp_path: Path) -> None:
    program = torch.export.export(
        Ranker().eval(), (torch.randn(6, 4), torch.randint(0, 9, (6, 5))), dynamic_shapes=dynamic()
    )
    program.example_inputs = None
    torch.export.save(program, str(tmp_path / "d.pt2"))
    answer = capture(tmp_path / "d.pt2", tmp_path / "s")
    assert answer.values == {"dense": {}, "ids": {"below": 30}}
    assert any("no sample inputs" in note for note in answer.inspection["notes"])
    assert torch.export.load(str(answer.files["captured.pt2"])).example_inputs is not None


def test_fused_operations_of_ours_are_known_when_loading(tmp_path: Path) -> None:
    kernels.load()

    class Fused(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> Any:
            return torch.ops.fuseworks.add_rms_norm(x, y, w, 1e-6)

    x = torch.randn(4, 8)
    answer = capture(saved(tmp_path, model=Fused(), inputs=(x, x.clone(), torch.ones(8))), tmp_path / "s")
    assert answer.inspection["operations"]["fuseworks.add_rms_norm"] == 1


def test_a_derived_dimension_is_refused_by_name(tmp_path: Path) -> None:
    class Pairs(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x.view(-1, 2, 3).sum(1) + y

    half = Dim("half", min=2, max=100)
    path = saved(
        tmp_path,
        model=Pairs(),
        inputs=(torch.randn(10, 3), torch.randn(5, 3)),
        dims={"x": {0: 2 * half}, "y": {0: half}},
    )
    with pytest.raises(FuseworksError) as caught:
        capture(path, tmp_path / "s")
    assert (caught.value.id, caught.value.place) == ("capturing:user:pt2-derived-dim", "x")


def test_a_buffer_that_each_call_changes_is_refused(tmp_path: Path) -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x + self.calls

    for decomposed in (False, True):
        program = torch.export.export(Counter(), (torch.randn(3),))
        program = program.run_decompositions() if decomposed else program
        torch.export.save(program, str(tmp_path / "c.pt2"))
        with pytest.raises(FuseworksError) as caught:
            capture(tmp_path / "c.pt2", tmp_path / "s")
        assert caught.value.id == "capturing:user:mutated-buffer" and "'calls'" in caught.value.message


@pytest.mark.parametrize("content", [b"not a zip", b"PK\x05\x06" + b"\0" * 18])
def test_a_file_that_is_no_export_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.pt2"
    path.write_bytes(content)
    with pytest.raises(FuseworksError) as caught:
        capture(path, tmp_path / "s")
    assert caught.value.id == "capturing:user:pt2-unreadable" and "torch.export.save" in caught.value.remedy
