from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from optimizer.errors import FuseworksError
from optimizer.inputs import ZIPF_HEAD, _zipf_head, _zipf_ranks, draw, items
from optimizer.spec import Workload


def workload(*inputs: dict[str, Any], **more: Any) -> Workload:
    dims = {"batch": {"serve": [256, 512], "min": 1, "max": 2048}}
    return Workload.model_validate({"inputs": list(inputs), "dims": dims, **more})


def ids(**values: Any) -> dict[str, Any]:
    return {"name": "ids", "dtype": "int64", "shape": ["batch", 4], "values": values}


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
