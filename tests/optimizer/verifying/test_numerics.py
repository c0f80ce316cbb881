from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from optimizer.verifying.numerics import (
    ErrorSum,
    Rule,
    Yardstick,
    few_factor,
    integer_errors,
    places_reason,
    rule_for,
    structure_reason,
    yardstick,
)


def test_the_yardstick_is_the_spread_around_the_mean_and_not_the_mean() -> None:
    # a sigmoid near one half: values 0.5 +- 0.004
    answers = [np.array([[0.504], [0.496]]), np.array([[0.504], [0.496]])]
    unit = yardstick(answers, rows=True)
    assert unit.kind == "spread"
    assert unit.rms == pytest.approx(0.004)


def test_two_tasks_in_one_output_are_each_centred_on_their_own_mean() -> None:
    answers = [np.array([[0.5, 100.0], [0.7, 100.2], [0.5, 100.0], [0.7, 100.2]])]
    assert yardstick(answers, rows=True).rms == pytest.approx(0.1)


def test_outputs_of_changing_shape_are_centred_over_all_elements() -> None:
    unit = yardstick([np.array([[0.0, 2.0]]), np.array([[0.0, 2.0, 0.0, 2.0]])], rows=True)
    assert unit.rms == pytest.approx(1.0)


def test_a_constant_output_is_measured_by_its_size_and_a_zero_one_by_one() -> None:
    constant = yardstick([np.full((8, 2), 3.0)], rows=True)
    assert (constant.kind, constant.rms) == ("size", pytest.approx(3.0))
    # rounding of float64 is not a spread
    almost = yardstick([3.0 + 1e-15 * np.arange(8.0)[:, None]], rows=True)
    assert almost.kind == "size"
    assert yardstick([np.zeros((8, 2))], rows=True) == Yardstick(1.0, "unit")
    assert yardstick([np.zeros((0, 2))], rows=True) == Yardstick(1.0, "unit")


def test_places_that_are_not_finite_have_no_part_in_spread_or_error() -> None:
    truth = np.array([[1.0], [3.0], [np.nan], [np.inf]])
    unit = yardstick([truth], rows=True)
    assert unit.rms == pytest.approx(1.0)
    total = ErrorSum()
    total.add(np.array([[1.5], [3.0], [np.nan], [np.inf]], dtype=np.float32), truth)
    assert total.elements == 2
    assert total.relative(unit) == pytest.approx(math.sqrt(0.25 / 2))
    assert total.max_abs == 0.5


@pytest.mark.parametrize(
    ("precision", "max_error", "allowed"),
    [
        ("float32", None, 3 * 1e-6 + 1e-5),
        ("float32", 5e-6, 5e-6),  # tighter than the house rule
        ("float32", 1e-2, 3 * 1e-6 + 1e-5),  # never looser
        ("float32", 1e-7, 1e-6),  # the original itself is above it
        ("bfloat16", None, 1e-2),
        ("bfloat16", 1e-3, 1e-3),
        ("bfloat16", 5e-2, 5e-2),
        ("bfloat16", 4e-6, 4e-6),  # below what float32 itself would be allowed
    ],
)
def test_max_error_tightens_float32_and_is_the_bound_of_a_lower_precision(
    precision: Any, max_error: float | None, allowed: float
) -> None:
    assert rule_for(precision, 3.0, max_error).allowed(1e-6) == pytest.approx(allowed)


def test_errors_are_pooled_over_sets() -> None:
    total = ErrorSum()
    total.add(np.array([1.0, 2.0]), np.array([1.0, 0.0]))
    total.add(np.array([5.0, 5.0]), np.array([5.0, 5.0]))
    assert total.relative(Yardstick(2.0, "spread")) == pytest.approx(math.sqrt(4 / 4) / 2)


def test_an_overflowing_error_stays_a_number() -> None:
    total = ErrorSum()
    total.add(np.array([1e300]), np.array([-1e300]))
    assert math.isfinite(total.relative(Yardstick(1e-12, "spread")))


def test_float32_is_allowed_three_times_the_baselines_error_and_a_floor() -> None:
    assert rule_for("float32", 3.0, None).allowed(2e-6) == pytest.approx(3 * 2e-6 + 1e-5)
    assert rule_for("float32", 5.0, None).allowed(1e-3) == pytest.approx(5e-3 + 1e-5)


def test_max_error_tightens_float32_but_never_below_the_baseline_itself() -> None:
    rule = rule_for("float32", 3.0, 1e-5)
    assert rule.allowed(1e-6) == pytest.approx(1e-5)
    assert rule.allowed(5e-4) == pytest.approx(5e-4)


def test_int8_has_a_bound_of_its_own_and_float32_none() -> None:
    assert rule_for("int8", 3.0, None).allowed(1e-6) == pytest.approx(1e-2)
    assert rule_for("int8", 3.0, 1e-3).allowed(1e-6) == pytest.approx(1e-3)
    assert rule_for("float32", 3.0, None).allowed(1e-6) == pytest.approx(1.3e-5)


def test_bfloat16_has_a_bound_of_its_own() -> None:
    assert rule_for("bfloat16", 3.0, None).allowed(1e-6) == pytest.approx(1e-2)
    assert rule_for("bfloat16", 3.0, 1e-3).allowed(1e-6) == pytest.approx(1e-3)
    assert rule_for("bfloat16", 3.0, None).allowed(0.1) == pytest.approx(0.3, rel=1e-3)


def test_few_elements_and_far_magnitudes_are_given_more_room() -> None:
    rule = Rule()
    assert few_factor(1) == 5.0
    assert few_factor(10_000) == pytest.approx(1.04)
    assert rule.allowed(0.0, "amplified") == pytest.approx(1e-3)
    assert rule.allowed(0.0, "edge", few_factor(1)) == pytest.approx(5e-5)


def test_form_is_judged_before_values() -> None:
    expected = np.zeros((2, 3), dtype=np.float32)
    assert structure_reason(np.zeros((2, 3), dtype=np.float32), expected) is None
    assert structure_reason(np.zeros((3, 2), dtype=np.float32), expected) == (
        "has shape [3, 2] where the original answers [2, 3]"
    )
    assert structure_reason(np.zeros((2, 3), dtype=np.int32), expected) == "is int32 where the original answers float32"


def test_nan_and_infinities_must_stand_where_reference_or_baseline_have_them() -> None:
    reference = np.array([1.0, np.nan, np.inf, 2.0])
    baseline = np.array([1.0, np.nan, np.inf, -np.inf], dtype=np.float32)
    assert places_reason(np.array([1.0, np.nan, np.inf, 2.0]), reference, baseline) is None
    assert places_reason(np.array([1.0, np.nan, np.inf, -np.inf]), reference, baseline) is None
    assert places_reason(np.array([np.nan, np.nan, np.inf, 2.0]), reference, baseline) == (
        "is NaN at [0] where the original is finite (1 of 4 places)"
    )
    assert "is finite at [1] where the original is NaN" in str(
        places_reason(np.array([1.0, 0.0, np.inf, 2.0]), reference, baseline)
    )
    assert "is -inf at [2] where the original is +inf" in str(
        places_reason(np.array([1.0, np.nan, -np.inf, 2.0]), reference, baseline)
    )


def test_integers_are_equal_but_for_ties() -> None:
    answer, reference = np.array([1, 2, 3, 4]), np.array([1, 0, 0, 4])
    assert integer_errors(answer, reference, np.array([False, True, False, False])) == (1, 1)
