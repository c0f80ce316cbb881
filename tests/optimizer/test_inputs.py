from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from optimizer.errors import FuseworksError
from optimizer.inputs import ZIPF_HEAD, EdgeSet, _zipf_head, _zipf_ranks, draw, edge_sets, items
from optimizer.spec import Workload


def workload(*inputs: dict[str, Any], **more: Any) -> Workload:
    dims = {"batch": {"serve": [256, 512], "min": 1, "max": 2048}}
    return Workload.model_validate({"inputs": list(inputs), "dims": dims, **more})


def ids(**values: Any) -> dict[str, Any]:
    return {"name": "ids", "dtype": "int64", "shape": ["batch", 4], "values": values}


RANKER = workload(
    {"name": "dense", "dtype": "float32", "shape": ["batch", 3]},
    {"name": "share", "dtype": "float32", "shape": ["batch"], "values": {"uniform": [0.25, 1.0]}},
    ids(zipf=1.1, below=[10, 1000, 50_000, 3]),
    {"name": "history", "dtype": "int32", "shape": ["batch", 6], "values": {"from": 1, "below": 90}},
    {"name": "length", "dtype": "int64", "shape": ["batch"], "values": {"from": 2, "below": 7}},
    {"name": "mask", "dtype": "bool", "shape": ["batch", 6]},
    {"name": "present", "dtype": "float32", "shape": ["batch", 6], "values": {"bernoulli": 0.5}},
)


def one(spec: dict[str, Any], batch: int = 20_000, seed: int = 0) -> np.ndarray:
    return draw(workload(spec), {"batch": batch}, np.random.default_rng(seed))[0]


def test_zipf_draws_each_rank_with_its_share() -> None:
    drawn = one(ids(zipf=1.5, below=50), batch=50_000).ravel()
    weights = np.arange(1, 51) ** -1.5
    expected = weights / weights.sum()
    seen = np.bincount(drawn, minlength=50) / drawn.size
    # five standard errors
    assert (np.abs(seen - expected) < 5 * np.sqrt(expected / drawn.size)).all()


@pytest.mark.parametrize("exponent", [0.7, 1.0, 1.3])
def test_zipf_beyond_the_exact_head_follows_the_law(exponent: float) -> None:
    count = 4 * ZIPF_HEAD
    weights = np.arange(1, count + 1, dtype=np.float64) ** -exponent
    cdf = np.cumsum(weights) / weights.sum()
    uniform = np.linspace(0.0005, 0.9995, 4001)
    expected = np.searchsorted(cdf, uniform, side="right")
    got = _zipf_ranks(exponent, count, uniform)
    assert np.abs(got - expected).max() <= 1
    assert (got != expected).mean() < 0.01


def test_zipf_ends_are_reached_and_never_passed() -> None:
    for count in (1, 7, ZIPF_HEAD, ZIPF_HEAD + 5, 50 * ZIPF_HEAD):
        ranks = _zipf_ranks(1.05, count, np.array([0.0, np.nextafter(1.0, 0.0)]))
        assert ranks[0] == 0
        assert count - 2 <= ranks[1] <= count - 1 or count > ZIPF_HEAD
        assert ranks.max() < count


def test_a_million_zipf_ids_take_under_a_second() -> None:
    _zipf_head(1.1)
    spec = workload(ids(zipf=1.1, below=[10_000_000, 1000, 50_000, 3]))
    started = time.process_time()
    drawn = draw(spec, {"batch": 250_000}, np.random.default_rng(0))[0]
    assert time.process_time() - started < 1.0
    assert (drawn.max(0) < [10_000_000, 1000, 50_000, 3]).all()


def test_columns_have_bounds_of_their_own() -> None:
    drawn = one(ids(below=[2, 30, 4, 500]))
    assert drawn.max(0).tolist() == [1, 29, 3, 499]
    assert drawn.min() == 0


def test_from_is_the_smallest_integer() -> None:
    for values in (
        {"from": 5, "below": 9},
        {"from": 5, "below": 9, "zipf": 1.2},
        {"from": 5, "below": 9, "normal": [7, 9]},
    ):
        drawn = one(ids(**values))
        assert (drawn.min(), drawn.max()) == (5, 8)


def test_integers_without_a_bound_are_zero_or_one() -> None:
    assert set(np.unique(one({"name": "n", "dtype": "int64", "shape": ["batch"]}))) == {0, 1}


def test_distributions_have_their_moments() -> None:
    normal = one({"name": "x", "dtype": "float64", "shape": ["batch", 5], "values": {"normal": [3.0, 2.0]}})
    assert normal.mean() == pytest.approx(3.0, abs=0.05) and normal.std() == pytest.approx(2.0, abs=0.05)
    uniform = one({"name": "x", "dtype": "float32", "shape": ["batch", 5], "values": {"uniform": [-1.0, 3.0]}})
    assert uniform.min() >= -1.0 and uniform.max() <= 3.0 and uniform.mean() == pytest.approx(1.0, abs=0.05)
    coin = one({"name": "x", "dtype": "float32", "shape": ["batch", 5], "values": {"bernoulli": 0.2}})
    assert set(np.unique(coin)) == {0.0, 1.0} and coin.mean() == pytest.approx(0.2, abs=0.01)
    assert (one({"name": "x", "dtype": "float32", "shape": ["batch"], "values": {"constant": 2.5}}) == 2.5).all()
    assert one({"name": "x", "dtype": "bool", "shape": ["batch", 5]}).mean() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("dtype", "travels"),
    [("float16", "float32"), ("bfloat16", "float32"), ("int8", "int8"), ("uint8", "uint8"), ("bool", "bool")],
)
def test_arrays_have_the_dtype_in_which_they_travel(dtype: str, travels: str) -> None:
    assert one({"name": "x", "dtype": dtype, "shape": ["batch", 2]}).dtype == travels


def test_low_precision_inputs_are_values_that_their_dtype_holds() -> None:
    import torch

    drawn = torch.from_numpy(one({"name": "x", "dtype": "bfloat16", "shape": ["batch", 2]}).copy())
    assert torch.equal(drawn, drawn.bfloat16().float())
    assert drawn.unique().numel() > 1000
    drawn = torch.from_numpy(one({"name": "x", "dtype": "float16", "shape": ["batch", 2]}).copy())
    assert torch.equal(drawn, drawn.half().float())


def test_a_scalar_input_is_drawn() -> None:
    spec = Workload.model_validate(
        {"inputs": [{"name": "k", "dtype": "int64", "shape": [], "values": {"zipf": 1.1, "below": 9}}]}
    )
    assert draw(spec, {}, np.random.default_rng(0))[0].shape == ()
    assert items(spec, {}) == 1


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (ids(below=[5, 5]), "below lists 2 bounds for 4 columns"),
        (ids(**{"from": 5, "below": 5}), r"no int64 lies in \[5, 5\)"),
        ({"name": "x", "dtype": "int8", "shape": ["batch"], "values": {"below": 1000}}, "no int8 lies in"),
        ({"name": "x", "dtype": "float32", "shape": ["batch"], "values": {"zipf": 1.1}}, "are for integer inputs"),
    ],
)
def test_values_that_cannot_be_drawn_name_the_input(spec: dict[str, Any], text: str) -> None:
    with pytest.raises(FuseworksError, match=text) as caught:
        one(spec, batch=4)
    assert (caught.value.id, caught.value.place) == ("run:usage:spec", spec["name"])


def test_the_same_seed_draws_the_same_and_another_does_not() -> None:
    spec = ids(zipf=1.1, below=100)
    np.testing.assert_array_equal(one(spec, 64, seed=3), one(spec, 64, seed=3))
    assert not np.array_equal(one(spec, 64, seed=3), one(spec, 64, seed=4))


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
        "fully masked rows", "masks all zero", "masks all one",
    } <= set(edges)  # fmt: skip
    assert "batch=256" not in edges, "the measured size is what the random sets have"
    assert [e.name for e in edges.values() if e.amplifies] == ["large values"]
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
    assert [e.name for e in edge_sets(spec, np.random.default_rng(0))] == ["zeros", "small values", "large values"]
