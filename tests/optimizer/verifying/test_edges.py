from __future__ import annotations

import numpy as np
import pytest

from optimizer.inputs import draw
from optimizer.spec import Workload
from optimizer.verifying.edges import EdgeSet, edge_sets
from tests.optimizer.test_inputs import ids, workload

RANKER = workload(
    {"name": "dense", "dtype": "float32", "shape": ["batch", 3]},
    {"name": "share", "dtype": "float32", "shape": ["batch"], "values": {"uniform": [0.25, 1.0]}},
    ids(zipf=1.1, below=[10, 1000, 50_000, 3]),
    {"name": "history", "dtype": "int32", "shape": ["batch", 6], "values": {"from": 1, "below": 90}},
    {"name": "length", "dtype": "int64", "shape": ["batch"], "values": {"from": 2, "below": 7}},
    {"name": "mask", "dtype": "bool", "shape": ["batch", 6]},
    {"name": "present", "dtype": "float32", "shape": ["batch", 6], "values": {"bernoulli": 0.5}},
)


def test_a_contract_makes_every_row_the_first_in_edges_too() -> None:
    spec = workload(ids(below=1000), contracts=[{"same_over_batch": ["ids"]}])
    arrays = draw(spec, {"batch": 32}, np.random.default_rng(0))
    assert (arrays[0] == arrays[0][:1]).all() and len(np.unique(arrays[0])) > 1
    for edge in edge_sets(spec, np.random.default_rng(0)):
        assert (edge.arrays[0] == edge.arrays[0][:1]).all(), edge.name


@pytest.fixture(scope="module")
def edges() -> dict[str, EdgeSet]:
    return {edge.name: edge for edge in edge_sets(RANKER, np.random.default_rng(0))}


def test_edges_cover_sizes_values_ids_and_masks(edges: dict[str, EdgeSet]) -> None:
    assert {"batch=1", "batch=2", "batch=512", "batch=2048"} <= set(edges)
    assert {
        "zeros", "small values", "large values", "all-equal ids", "duplicate ids", "smallest ids", "largest ids",
        "fully masked rows", "masks all zero", "masks all one", "masks with one place", "masks with all places but one",
        "nearly equal values", "one length for all",
    } <= set(edges)  # fmt: skip
    assert "batch=256" not in edges, "the measured size is what the random sets have"
    assert [e.name for e in edges.values() if e.amplifies] == ["large values", "nearly equal values"]
    assert all(e.kind == ("sizes" if e.name.startswith("batch") else "edge") for e in edges.values())
    assert any(e.sizes["batch"] not in {1, 2, 256, 512, 2048} for e in edges.values()), "one size nobody named"


def test_every_edge_stays_within_what_the_workload_declares(edges: dict[str, EdgeSet]) -> None:
    for edge in edges.values():
        dense, share, table, history, length, _mask, present = edge.arrays
        assert [a.shape[0] for a in edge.arrays] == [edge.sizes["batch"]] * 7
        assert [a.dtype.name for a in edge.arrays] == [
            "float32",
            "float32",
            "int64",
            "int32",
            "int64",
            "bool",
            "float32",
        ]
        assert np.isfinite(dense).all()
        assert share.min() >= 0.25 and share.max() < 1.0
        assert table.min() >= 0 and (table < [10, 1000, 50_000, 3]).all()
        assert history.min() >= 1 and history.max() < 90
        assert length.min() >= 2 and length.max() < 7
        assert set(np.unique(present)) <= {0.0, 1.0}


def test_edges_are_what_they_are_called(edges: dict[str, EdgeSet]) -> None:
    assert not edges["zeros"].arrays[0].any()
    assert np.abs(edges["large values"].arrays[0]).max() > 20
    assert np.abs(edges["small values"].arrays[0]).max() < 0.01
    assert (edges["largest ids"].arrays[2] == [9, 999, 49_999, 2]).all()
    assert (edges["smallest ids"].arrays[3] == 1).all()
    assert len(np.unique(edges["all-equal ids"].arrays[3])) == 1
    assert len(np.unique(edges["duplicate ids"].arrays[2], axis=0)) == 2
    half = edges["fully masked rows"]
    assert not half.arrays[5][::2].any() and half.arrays[5][1::2].any()
    assert not half.arrays[6][::2].any() and (half.arrays[4][::2] == 2).all() and (half.arrays[4][1::2] > 2).any()
    assert not edges["masks all zero"].arrays[5].any()
    assert edges["masks all one"].arrays[5].all() and (edges["masks all one"].arrays[4] == 6).all()
    near = edges["nearly equal values"].arrays[0].astype(np.float64)
    assert near.std(-1).max() < 0.12 and np.abs(near.mean(-1)).max() > 1, "small beside its mean, in every row"
    alone = edges["one length for all"].arrays
    assert len(np.unique(alone[4])) == 1 and len(np.unique(alone[3])) > 1


def test_masks_with_one_place_have_the_first_the_last_and_each_between(edges: dict[str, EdgeSet]) -> None:
    for place in (5, 6):
        one, but_one = (edges[f"masks with {which}"].arrays[place] for which in ("one place", "all places but one"))
        assert (one.sum(-1) == 1).all() and (but_one.sum(-1) == 5).all()
        assert one.argmax(-1)[:6].tolist() == [0, 5, 1, 4, 2, 3] == but_one.argmin(-1)[:6].tolist()
    # a length of one is below the smallest declared, which is two; the longest is six
    assert (edges["masks with one place"].arrays[4] == 2).all()
    assert (edges["masks with all places but one"].arrays[4] == 5).all()


def test_a_size_that_does_not_fit_is_lowered_and_says_so() -> None:
    spec = workload({"name": "x", "dtype": "float32", "shape": ["batch", 1000]})
    names = [e.name for e in edge_sets(spec, np.random.default_rng(0), max_bytes=4_000_000)]
    assert "batch=864 (largest tried; declared up to 2048)" in names  # 2048 * (3/4)^3, rounded down each time
    names = [e.name for e in edge_sets(spec, np.random.default_rng(0), max_growth=2.0)]
    assert "batch=1024 (largest tried; declared up to 2048)" in names


def test_a_length_grows_by_the_root_of_what_a_batch_may() -> None:
    spec = Workload.model_validate(
        {
            "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", "time"]}],
            "dims": {"batch": {"serve": [2], "max": 100}, "time": {"serve": [10], "min": 4, "max": 100}},
        }
    )
    sizes = [e.sizes for e in edge_sets(spec, np.random.default_rng(0), max_growth=16.0) if e.kind == "sizes"]
    assert max(s["batch"] for s in sizes) == 32
    assert max(s["time"] for s in sizes) == 40
    assert {"batch": 1, "time": 4} in sizes
    # eight times the work at once: the batch by the root of eight, the length by its fourth root
    assert {"batch": 5, "time": 16} in sizes


def test_a_size_says_what_it_costs_and_whether_it_is_worth_that() -> None:
    spec = Workload.model_validate(
        {
            "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", "time"]}],
            "dims": {"batch": {"serve": [2, 4], "max": 1000}, "time": {"serve": [10], "min": 5, "max": 1000}},
        }
    )
    sets = {e.name: e for e in edge_sets(spec, np.random.default_rng(0))}
    # 64 times the largest served batch; a length as far as the root of 64; and eight times, which anyone may afford
    largest, longest = "batch=256 (largest tried; declared up to 1000)", "time=80 (largest tried; declared up to 1000)"
    assert (sets[largest].growth, sets[largest].sure) == (128.0, False)
    assert (sets[longest].growth, sets[longest].sure) == (64.0, False)
    assert (sets["batch=32"].growth, sets["batch=32"].sure) == (16.0, True)
    assert sets["time=28"].sure and sets["time=28"].growth == pytest.approx(7.84)
    assert sets["batch=4"].sure, "every served size is"
    shortest = sets["every dimension at its smallest"]
    assert (shortest.growth, shortest.sure) == (0.5 * 0.25, True)
    assert (sets["zeros"].growth, sets["zeros"].sure) == (1.0, True)


def test_a_served_size_is_sure_however_much_larger_than_the_measured_one_it_is() -> None:
    spec = workload({"name": "x", "dtype": "float32", "shape": ["batch", 2]})
    spec = spec.model_copy(update={"dims": {"batch": spec.dims["batch"].model_copy(update={"serve": [1, 2048]})}})
    sets = {e.name: e for e in edge_sets(spec, np.random.default_rng(0))}
    assert (sets["batch=2048"].growth, sets["batch=2048"].sure) == (2048.0, True)


def test_integers_that_are_zero_or_one_are_taken_for_a_mask() -> None:
    spec = workload(ids(below=2), {"name": "tokens", "dtype": "int64", "shape": ["batch", 4], "values": {"below": 9}})
    edges = {e.name: e for e in edge_sets(spec, np.random.default_rng(0))}
    half = edges["fully masked rows"].arrays[0]
    assert not half[::2].any() and half[1::2].any()
    assert (edges["largest ids"].arrays[1] == 8).all()


def test_a_static_workload_without_ids_or_masks_has_value_edges_only() -> None:
    spec = Workload.model_validate({"inputs": [{"name": "x", "dtype": "float32", "shape": [8, 2]}]})
    assert [e.name for e in edge_sets(spec, np.random.default_rng(0))] == [
        "zeros", "small values", "large values", "nearly equal values"
    ]  # fmt: skip
