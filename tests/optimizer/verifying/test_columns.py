"""The worst column of an output, by its own spread."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.verifying.columns import MOST_COLUMNS, RESOLUTION, Columns, ColumnSum, columns_of
from optimizer.verifying.numerics import Rule


def alternating(*spreads: float, mean: float = 0.0, rows: int = 64) -> np.ndarray:
    """Columns of `mean` +- each spread."""
    return mean + np.where(np.arange(rows) % 2, 1.0, -1.0)[:, None] * np.array(spreads)


def summed(columns: Columns, answer: np.ndarray, truth: np.ndarray) -> ColumnSum:
    total = ColumnSum(columns)
    total.add(answer, truth)
    return total


def found(truth: np.ndarray, baseline: np.ndarray | None = None) -> Columns:
    columns = columns_of([truth], rows=True)
    assert columns is not None
    return columns.with_baseline(summed(columns, truth if baseline is None else baseline, truth).relative())


def test_each_column_has_its_own_spread() -> None:
    columns = found(alternating(1000.0, 0.004, mean=0.5))
    assert [unit.kind for unit in columns.units] == ["spread", "spread"]
    assert [unit.rms for unit in columns.units] == pytest.approx([1000.0, 0.004])


def test_a_constant_column_is_measured_by_its_size_and_a_zero_one_by_one() -> None:
    truth = np.concatenate([alternating(1.0), np.full((64, 1), 3.0), np.zeros((64, 1))], 1)
    columns = found(truth)
    assert [(unit.kind, unit.rms) for unit in columns.units[1:]] == [("size", pytest.approx(3.0)), ("unit", 1.0)]
    wrong = truth.copy()
    wrong[:, 1] = 3.001
    worst = summed(columns, wrong, truth).worst(Rule())
    assert (worst.column, worst.unit.kind) == (1, "size")
    assert worst.error == pytest.approx(1 / 3000)
    assert worst.reason is not None and "of the size (the output is constant)" in worst.reason


def test_a_constant_answer_in_a_quiet_column_is_caught_however_loud_its_neighbour_is() -> None:
    truth = alternating(1000.0, 0.004, mean=0.5)
    cheat = truth.astype(np.float32)
    cheat[:, 1] = 0.5
    worst = summed(found(truth, truth.astype(np.float32)), cheat, truth).worst(Rule())
    assert worst.column == 1
    assert worst.error == pytest.approx(1.0, rel=1e-4)
    assert worst.reason is not None and worst.reason.startswith("column 1 alone: error 1.00e+00 of the spread")


def test_the_rule_is_three_times_the_baselines_error_in_that_column_and_the_floor() -> None:
    truth = alternating(1.0, 2.0)
    # the baseline is off by 0.002 in column 1, which is 0.001 of its spread
    columns = found(truth, truth + np.array([0.0, 0.002]))
    few = 1 + 4 / np.sqrt(64)
    allowed = (3 * 0.001 + 1e-5) * few + RESOLUTION
    assert summed(columns, truth + np.array([0.0, 0.01]), truth).worst(Rule()).allowed == pytest.approx(allowed)
    assert summed(columns, truth + np.array([0.0, 2 * allowed * 0.99]), truth).worst(Rule()).reason is None
    assert summed(columns, truth + np.array([0.0, 2 * allowed * 1.01]), truth).worst(Rule()).reason is not None
    # in column 0 the baseline is exact, and the floor alone is allowed
    assert summed(columns, truth + np.array([1e-4, 0.0]), truth).worst(Rule()).column == 0


def test_what_float32_cannot_resolve_in_a_column_is_no_error() -> None:
    truth = alternating(1.0, 1e-7, mean=1.0)
    one_step = np.nextafter(np.float32(1.0), np.float32(2.0))
    answer = truth.astype(np.float32)
    answer[:, 1] = one_step
    assert summed(found(truth, truth.astype(np.float32)), answer, truth).worst(Rule()).reason is None


def test_one_column_many_columns_and_few_elements_are_judged_as_a_whole_only() -> None:
    assert columns_of([np.zeros((64, 1))], rows=True) is None
    assert columns_of([np.zeros(64)], rows=True) is None
    assert columns_of([np.zeros((64, MOST_COLUMNS + 1))], rows=True) is None
    assert columns_of([np.zeros((64, MOST_COLUMNS))], rows=True) is not None
    assert columns_of([np.zeros((15, 2))], rows=True) is None
    assert columns_of([np.zeros((8, 2)), np.zeros((8, 3))], rows=True) is None


def test_places_that_are_not_finite_have_no_part_and_an_overflow_stays_a_number() -> None:
    truth = alternating(1.0, 1.0)
    truth[0, 0] = np.nan
    columns = found(truth)
    answer = truth.copy()
    answer[1, 1] = 1e300
    worst = summed(columns, answer, truth).worst(Rule())
    assert worst.column == 1 and np.isfinite(worst.error)


def test_another_order_of_sums_raises_no_false_alarm_over_two_hundred_seeds() -> None:
    alarms = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        x, w = rng.standard_normal((64, 48)), rng.standard_normal((48, 8)) * 10.0 ** np.arange(-4, 4)
        x32, w32 = x.astype(np.float32), w.astype(np.float32)
        truth = x32.astype(np.float64) @ w32.astype(np.float64) + 1.0
        order = rng.permutation(48)
        baseline = x32 @ w32 + np.float32(1)
        candidate = np.float32(1) + (x32[:, order[:24]] @ w32[order[:24]] + x32[:, order[24:]] @ w32[order[24:]])
        alarms += summed(found(truth, baseline), candidate, truth).worst(Rule()).reason is not None
    assert alarms == 0
