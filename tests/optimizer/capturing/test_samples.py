"""Captured samples: read under limits, refused with the place, and drawn so that no pool can be memorised."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save, save_file

from optimizer.capturing.samples import JITTER, read_samples
from optimizer.coordinator.capture import _samples
from optimizer.errors import FuseworksError
from optimizer.spec import Workload
from tests.optimizer.capturing.uploads import capture, module

RNG = np.random.default_rng(3)


def workload(**changes: Any) -> Workload:
    document = {
        "inputs": [
            {"name": "dense", "dtype": "float32", "shape": ["batch", 3]},
            {"name": "ids", "dtype": "int64", "shape": ["batch", 2], "values": {"below": [10, 1000]}},
            {"name": "shown", "dtype": "bool", "shape": ["batch"]},
        ],
        "dims": {"batch": {"serve": [4, 8], "min": 1, "max": 64}},
        "samples": "samples.safetensors",
        **changes,
    }
    return Workload.model_validate(document)


def captured(count: int = 5) -> dict[str, np.ndarray]:
    return {
        "dense": RNG.standard_normal((count, 3)).astype(np.float32),
        "ids": np.stack([np.arange(count) % 10, np.arange(count)], axis=1),
        "shown": np.arange(count) % 2 == 0,
    }


def read(folder: Path, tensors: dict[str, np.ndarray], of: Workload | None = None) -> Any:
    path = folder / "samples.safetensors"
    save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, path)
    return read_samples(path, of or workload())


def refused(folder: Path, tensors: dict[str, np.ndarray], of: Workload | None = None) -> FuseworksError:
    with pytest.raises(FuseworksError) as caught:
        read(folder, tensors, of)
    assert caught.value.id == "capturing:user:bad-samples"
    assert "save_file" in caught.value.remedy
    return caught.value


def test_rows_are_read_in_the_order_of_the_inputs(tmp_path: Path) -> None:
    tensors = captured()
    samples = read(tmp_path, tensors)
    assert (samples.rows, samples.count, samples.per_set) == (True, 5, 4)
    for array, name in zip(samples.arrays, ("dense", "ids", "shown"), strict=True):
        assert np.array_equal(array, tensors[name])


def test_verification_gets_the_rows_in_turn_and_unchanged(tmp_path: Path) -> None:
    tensors = captured()
    samples = read(tmp_path, tensors)
    rows = [0, 1, 2, 3, 4, 0, 1, 2]  # two sets of four from five rows
    for number in (0, 1):
        dense, ids, shown = samples.captured(number)
        chosen = rows[number * 4 : number * 4 + 4]
        assert np.array_equal(dense, tensors["dense"][chosen])
        assert ids[:, 1].tolist() == chosen
        assert shown.tolist() == [row % 2 == 0 for row in chosen]


def test_timed_rows_stay_whole_and_no_float_is_ever_seen_twice(tmp_path: Path) -> None:
    tensors = captured()
    samples, rng = read(tmp_path, tensors), np.random.default_rng(0)
    seen: set[bytes] = set()
    chosen: set[int] = set()
    for _ in range(50):
        dense, ids, shown = samples.draw(rng)
        assert (dense.dtype, ids.dtype, shown.dtype) == (np.float32, np.int64, np.bool_)
        for row in range(4):
            source = int(ids[row, 1])
            chosen.add(source)
            assert shown[row] == (source % 2 == 0)
            np.testing.assert_allclose(dense[row], tensors["dense"][source], rtol=1.01 * JITTER)
            assert dense[row].tobytes() not in seen
            seen.add(dense[row].tobytes())
    assert chosen == {0, 1, 2, 3, 4}
    assert "floats are moved by up to 0.1%" in samples.note()


def test_a_float_that_holds_flags_or_whole_numbers_is_left_alone(tmp_path: Path) -> None:
    of = workload(inputs=[{"name": "flags", "dtype": "float32", "shape": ["batch", 2]}])
    samples = read(tmp_path, {"flags": np.array([[0, 1], [1, 7], [1, 1]], np.float32)}, of)
    (drawn,) = samples.draw(np.random.default_rng(0))
    assert set(np.unique(drawn)) <= {0.0, 1.0, 7.0}
    assert "a model that remembers single rows would look faster than it is" in samples.note()


def test_a_declared_range_is_not_left_by_moving_a_value(tmp_path: Path) -> None:
    of = workload(inputs=[{"name": "share", "dtype": "float32", "shape": ["batch"], "values": {"uniform": [0, 1]}}])
    samples = read(tmp_path, {"share": np.array([0.5, 1.0, 1.0, 1.0], np.float32)}, of)
    rng = np.random.default_rng(0)
    assert max(float(samples.draw(rng)[0].max()) for _ in range(20)) <= 1.0


def test_whole_calls_are_drawn_whole(tmp_path: Path) -> None:
    of = workload(inputs=[{"name": "x", "dtype": "float32", "shape": [2, 3]}], dims={})
    calls = np.arange(18, dtype=np.float32).reshape(3, 2, 3)
    samples = read(tmp_path, {"x": calls}, of)
    assert (samples.rows, samples.per_set) == (False, 1)
    assert np.array_equal(samples.captured(4)[0], calls[1])
    (drawn,) = samples.draw(np.random.default_rng(0))
    assert any(np.array_equal(drawn, call) for call in calls)
    assert "remembers whole calls" in samples.note()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precisions_travel_as_float32(tmp_path: Path, dtype: str) -> None:
    import torch
    from safetensors.torch import save_file as save_tensors

    of = workload(inputs=[{"name": "x", "dtype": dtype, "shape": ["batch", 3]}])
    values = torch.tensor([[1.5, -2.25, 0.125], [3.0, 0.0, -1.0]], dtype=getattr(torch, dtype))
    save_tensors({"x": values}, tmp_path / "samples.safetensors")
    samples = read_samples(tmp_path / "samples.safetensors", of)
    assert samples.arrays[0].dtype == np.float32
    assert samples.arrays[0].tolist() == [[1.5, -2.25, 0.125], [3.0, 0.0, -1.0]]


def test_the_contract_that_rows_share_an_input_is_kept(tmp_path: Path) -> None:
    samples = read(tmp_path, captured(), workload(contracts=[{"same_over_batch": ["ids"]}]))
    for ids in (samples.captured(0)[1], samples.draw(np.random.default_rng(1))[1]):
        assert len(np.unique(ids, axis=0)) == 1


def test_the_label_of_a_task_metric_may_lie_beside_the_inputs(tmp_path: Path) -> None:
    labels = {"label": "clicked", "metric": "auc", "max_drop": 0.001}
    clicked = np.array([[0.0], [1.0], [1.0], [0.0], [1.0]], np.float32)
    samples = read(tmp_path, captured() | {"clicked": clicked}, workload(labels=labels))
    assert samples.count == 5 and samples.labels.tolist() == [0.0, 1.0, 1.0, 0.0, 1.0]
    # sets of four: the second holds the last sample, and the first three once more
    assert samples.sets == 2
    assert [samples.labelled(n).tolist() for n in range(2)] == [[0.0, 1.0, 1.0, 0.0], [1.0]]
    assert read(tmp_path, captured(), workload(labels=labels)).labels is None
    assert read(tmp_path, captured()).labels is None


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        (np.zeros(4, np.float32), "its shape is [4], and the inputs hold 5 samples"),
        (np.array([0, 1, np.nan, 1, 1], np.float32), "it holds labels that are no numbers"),
    ],
)
def test_labels_that_fit_no_sample_are_refused_at_their_tensor(tmp_path: Path, label: np.ndarray, reason: str) -> None:
    asked = workload(labels={"label": "clicked", "metric": "auc", "max_drop": 0.001})
    error = refused(tmp_path, captured() | {"clicked": label}, asked)
    assert (error.place, reason in error.message) == ("samples.safetensors: clicked", True)


@pytest.mark.parametrize(
    ("change", "place", "reason"),
    [
        ({"ids": None}, "samples.safetensors", "no tensor for input 'ids'"),
        ({"idz": np.zeros(5)}, "samples.safetensors", "'idz' is no input of the workload"),
        (
            {"dense": np.zeros((5, 3))},
            "samples.safetensors: dense",
            "it is float64 where the workload's input is float32",
        ),
        (
            {"dense": np.zeros((5, 4), np.float32)},
            "samples.safetensors: dense",
            "its shape is [5, 4], and [samples, 3] is needed",
        ),
        ({"shown": np.zeros(4, bool)}, "samples.safetensors", "its tensors hold 4 and 5 samples"),
        (
            {"ids": np.array([[0, 0], [9, 999], [10, 5], [0, 0], [0, 0]])},
            "samples.safetensors: ids",
            "sample 2 holds 10, and the workload declares 0 to 9",
        ),
    ],
)
def test_what_does_not_fit_the_workload_is_refused_with_its_tensor(
    tmp_path: Path, change: dict[str, Any], place: str, reason: str
) -> None:
    tensors = {name: array for name, array in (captured() | change).items() if array is not None}
    error = refused(tmp_path, tensors)
    assert (error.place, reason in error.message) == (place, True), error.message


@pytest.mark.parametrize(("count", "reason"), [(0, "it holds 0 samples, and 2"), (1, "it holds 1 samples, and 2")])
def test_too_few_rows_are_refused(tmp_path: Path, count: int, reason: str) -> None:
    assert reason in refused(tmp_path, captured(count)).message


def test_an_input_without_a_batch_needs_whole_calls(tmp_path: Path) -> None:
    inputs = [
        {"name": "x", "dtype": "float32", "shape": ["batch", 3]},
        {"name": "table", "dtype": "float32", "shape": [6, 2]},
    ]
    tensors = {"x": np.zeros((5, 3), np.float32), "table": np.zeros((5, 2), np.float32)}
    error = refused(tmp_path, tensors, workload(inputs=inputs))
    assert (error.place, "give whole calls" in error.message) == ("samples.safetensors: table", True)
    whole = {"x": np.zeros((5, 4, 3), np.float32), "table": np.zeros((5, 6, 2), np.float32)}
    assert read(tmp_path, whole, workload(inputs=inputs)).count == 5


def test_a_file_that_is_no_safetensors_is_refused_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "samples.safetensors"
    path.write_bytes(save(captured())[:-8])
    with pytest.raises(FuseworksError) as caught:
        read_samples(path, workload())
    assert caught.value.id == "inspecting:user:bad-safetensors"


def test_a_file_beyond_the_limit_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optimizer.capturing.samples.LIMIT_BYTES", 64)
    assert "the file has 0 MiB, and 0 MiB are taken" in refused(tmp_path, captured()).message


def test_samples_that_are_named_and_not_there_end_the_run(tmp_path: Path) -> None:
    with pytest.raises(FuseworksError) as caught:
        _samples(tmp_path / "samples.safetensors", workload())
    assert caught.value.id == "capturing:user:no-samples"
    assert "'samples.safetensors'" in caught.value.message
    assert _samples(tmp_path / "samples.safetensors", workload(samples=None)) is None


@pytest.mark.parametrize("name", ["../samples.safetensors", "/etc/x.safetensors", "a/b.safetensors", "samples.npz"])
def test_samples_are_a_plain_file_beside_the_model(name: str) -> None:
    with pytest.raises(ValueError, match="samples"):
        workload(samples=name)


@pytest.mark.parametrize("named", [True, False])
def test_the_capture_hands_over_the_file_that_the_workload_names(tmp_path: Path, named: bool) -> None:
    source = module(tmp_path, "def forward(self, x):\n    return x.sum(1)")
    upload = tmp_path / "upload.zip"
    with zipfile.ZipFile(upload, "w") as archive:
        archive.write(source, "model.py")
        archive.writestr("morning.safetensors", save({"x": np.zeros((3, 8), np.float32)}))
    given = {
        "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 8]}],
        "dims": {"batch": {"serve": [16], "max": 64}},
        **({"samples": "morning.safetensors"} if named else {}),
    }
    answer = capture(upload, tmp_path / "scratch", workload=given)
    assert ("samples.safetensors" in answer.files) is named
