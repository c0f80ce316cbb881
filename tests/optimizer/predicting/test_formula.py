"""The upper end of a prediction, worked out by hand, and what is shown of it."""

from __future__ import annotations

import pytest

from optimizer.predicting import formula
from optimizer.predicting.formula import kernel_share, upper_us


def test_a_tiny_kernel_costs_a_gap_and_the_shortest_time():
    assert upper_us(0.04, 0.75) == formula.LAUNCH_GAP_US + formula.SHORTEST_US


def test_a_large_kernel_costs_its_bound_by_its_share_and_a_gap():
    assert upper_us(75.0, 0.75) == pytest.approx(formula.LAUNCH_GAP_US + 100.0)


def test_a_memory_bound_kernel_with_half_of_the_bytes_in_flight_reaches_half_of_the_share():
    assert kernel_share(500, 1000, "memory") == pytest.approx(formula.GENERATED_SHARE / 2)
    assert kernel_share(2000, 1000, "memory") == formula.GENERATED_SHARE
    assert kernel_share(1, 1000, "memory") == formula.LEAST_SHARE


def test_bytes_in_flight_do_not_matter_to_a_kernel_bound_by_arithmetic_or_without_loads():
    assert kernel_share(1, 1000, "compute") == formula.GENERATED_SHARE
    assert kernel_share(0, 1000, "memory") == formula.GENERATED_SHARE


def test_every_figure_that_the_formula_takes_for_granted_is_shown():
    shown = formula.formula()
    constants = {value for name, value in vars(formula).items() if name.endswith(("_US", "_SHARE"))}
    assert set(shown.assumptions.values()) == constants
    assert all(name.removesuffix("_us") in shown.upper for name in shown.assumptions)
    assert "Predicted" in " ".join(shown.notes)
