"""The judgement of a step's outcome, on figures that a person can work out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from optimizer.verifying.numerics import Rule
from optimizer.verifying.training.asking import Trained
from optimizer.verifying.training.case import Case, shown
from optimizer.verifying.training.convergence import Curves, deviation, step_count

SIGNS = np.array([1.0, -1.0, 1.0, -1.0])  # its spread is 1
ZERO = np.zeros(4)
RULE = Rule()


def outcome(
    head: float = 1.0, bias: float = 0.0, losses: tuple[float, ...] = (3.0, 1.0), update: float = 0.5
) -> Trained:
    """The head's gradient is `head` times the signs, the bias's `bias` everywhere."""
    gradients = {"0 model.head": head * SIGNS, "0 model.bias": np.full(4, bias)}
    updates = {"model.head": update * SIGNS, "model.bias": ZERO}
    return Trained(np.array(losses), np.zeros((2, 64)), gradients, updates, {}, 0.1)


def case(baseline: Trained, *nudged: Trained) -> Case:
    return Case("random", [], [0, 1], outcome(), baseline, nudged, items=8)


def test_an_error_is_a_share_of_the_spread_and_three_times_roundings_is_allowed() -> None:
    one = case(outcome(head=1 + 1e-3))
    for head, passed in ((1 + 2e-3, True), (1 + 9e-3, True), (1 + 1e-2, False)):
        row = one.judge(outcome(head=head), RULE)[1]
        assert row.error == pytest.approx(head - 1)
        # (3 * 1e-3 + 1e-5), three times as much for a tensor of four elements
        assert row.allowed == pytest.approx(3.01e-3 * 3)
        assert row.passed is passed and row.output == "gradient of head, step 1 (worst of 2)"
        assert row.samples == 16


def test_a_gradient_that_is_zero_but_for_rounding_is_measured_by_its_like() -> None:
    one = case(outcome(bias=1e-8))
    # a tenth of the root of the mean of 1 and 0
    assert one.tensors["gradients"]["0 model.bias"].unit == pytest.approx(0.1 * math.sqrt(0.5))
    assert all(row.passed for row in one.judge(outcome(bias=9e-8), RULE))
    assert not all(row.passed for row in one.judge(outcome(bias=1e-3), RULE))


def test_what_the_original_gets_wrong_by_rounding_is_named_and_not_judged() -> None:
    one = case(outcome(), outcome(update=0.7))
    assert one.not_judged() == ["update of head"]
    assert all(row.passed for row in one.judge(outcome(update=0.9), RULE))


def test_a_number_that_is_none_is_refused_where_the_original_has_one() -> None:
    rows = case(outcome()).judge(outcome(head=math.nan), RULE)
    assert not rows[1].passed and "is NaN at [0]" in (rows[1].reason or "")


def test_losses_are_measured_by_their_spread() -> None:
    row = case(outcome()).judge(outcome(losses=(3.0, 1.0 + 1e-4)), RULE)[0]
    # of 3 and 1 the spread is 1; one of two losses is off
    assert row.error == pytest.approx(1e-4 / math.sqrt(2)) and not row.passed


@pytest.mark.parametrize(
    ("name", "words"), [("3 model.head.weight", "head.weight, step 4"), ("model.head: sum", "head: sum")]
)
def test_names_read_as_the_users_own(name: str, words: str) -> None:
    assert shown(name) == words


def test_curves_are_held_against_what_rounding_makes_of_the_originals() -> None:
    def run(*losses: float) -> Trained:
        return Trained(np.array(losses), np.ones((1, 64)), {}, {}, {}, 0.1)

    one = Curves.of([0, 1], run(2.0, 2.0), [run(2.0, 2.0 + 2e-3), run(2.0, 2.0)])
    # the root of the mean of 0 and (1e-3 of the size) squared
    assert one.noise == pytest.approx(1e-3 / math.sqrt(2))
    assert one.judge(run(2.0, 2.0 + 5e-3), RULE).passed
    beyond = one.judge(run(2.0, 2.0 + 7e-3), RULE)
    assert not beyond.passed and (beyond.reason or "").startswith("the loss goes another way: off by 2.47e-03")
    diverged = one.judge(run(2.0, math.inf), RULE)
    assert diverged.reason == "the loss is not finite at step 2" and diverged.losses == [2.0, None]


def test_a_curve_without_one_finite_step_says_nothing() -> None:
    assert deviation(np.array([math.nan]), np.array([1.0])) == 0.0


@pytest.mark.parametrize(("step_s", "steps"), [(1e-4, 48), (0.1, 40), (0.21, 16), (1.0, 12)])
def test_slow_steps_are_trained_for_fewer_in_whole_rounds_over_the_batches(step_s: float, steps: int) -> None:
    assert step_count(step_s) == steps
