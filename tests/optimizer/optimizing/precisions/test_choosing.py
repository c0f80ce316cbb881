"""The choice of layers: by what they save for their error, within the bound, measured together."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from optimizer.optimizing.precisions.choosing import MARGIN, Choice, Option, choose, every_one, why, with_company


def adding_up(shares: dict[int, float]) -> tuple[Callable[[frozenset[int]], float], list[frozenset[int]]]:
    """Errors that add up, and what was asked."""
    asked: list[frozenset[int]] = []

    def together(layers: frozenset[int]) -> float:
        asked.append(layers)
        return sum(shares[layer] for layer in layers)

    return together, asked


def test_all_that_gain_are_chosen_with_one_question_where_the_bound_allows_them() -> None:
    options = [Option(0, 4.0, 1.0, 0.1), Option(1, 2.0, 1.0, 0.2), Option(2, 1.0, 1.0, 0.0)]
    together, asked = adding_up({0: 0.1, 1: 0.2, 2: 0.0})
    found = choose(options, together)
    assert found.layers == {0, 1}
    assert found.share == pytest.approx(0.3)
    assert asked == [frozenset({0, 1})]


def test_a_layer_that_gains_less_than_its_timing_is_worth_stays() -> None:
    together, asked = adding_up({})
    assert choose([Option(0, 1.0, 0.96, 0.0), Option(1, 1.0, 2.0, 0.0)], together) == Choice(frozenset(), 0.0)
    assert asked == []


def test_a_layer_that_is_beyond_the_bound_alone_stays_and_one_that_was_not_measured_too() -> None:
    together, _ = adding_up({1: 0.1})
    options = [Option(0, 9.0, 1.0, MARGIN + 0.01), Option(1, 2.0, 1.0, 0.1), Option(2, 9.0, 1.0, None)]
    assert choose(options, together).layers == {1}


def test_those_that_save_most_for_their_error_come_first_until_the_bound_is_used_up() -> None:
    # by error squared over milliseconds saved: 3 (0.0004), 0 (0.01), 2 (0.045), 1 (0.09)
    options = [
        Option(0, 2.0, 1.0, 0.1),
        Option(1, 2.0, 1.0, 0.3),
        Option(2, 3.0, 1.0, 0.3),
        Option(3, 2.0, 1.0, 0.02),
    ]
    together, asked = adding_up({0: 0.1, 1: 0.3, 2: 0.3, 3: 0.02})
    found = choose(options, together)
    assert found.layers == {3, 0, 2}
    assert found.share == pytest.approx(0.42)
    assert len(asked) <= 3


def test_what_counts_is_the_error_of_all_together_not_their_sum() -> None:
    options = [Option(layer, 2.0, 1.0, 0.1) for layer in range(4)]
    assert choose(options, lambda layers: 0.05).layers == {0, 1, 2, 3}
    assert choose(options, lambda layers: 0.0 if len(layers) < 2 else 5.0).layers == {0}
    assert choose(options, lambda layers: 5.0) == Choice(frozenset(), 0.0)


def test_where_all_that_gain_keep_the_bound_together_their_own_errors_are_not_needed() -> None:
    options = [Option(0, 4.0, 1.0), Option(1, 1.0, 0.99), Option(2, 2.0, 1.0)]
    together, asked = adding_up({0: 0.3, 2: 0.4})
    assert every_one(options, together) == Choice(frozenset({0, 2}), 0.7)
    assert asked == [frozenset({0, 2})]
    assert every_one(options, lambda layers: MARGIN + 0.01) is None
    assert every_one([Option(0, 1.0, 2.0)], adding_up({})[0]) == Choice(frozenset(), 0.0)


def test_a_layer_that_is_as_fast_in_either_goes_with_the_others_where_the_bound_allows_it() -> None:
    # 1 neither gains nor loses 5 %, 2 loses 10 %
    options = [Option(0, 4.0, 1.0, 0.1), Option(1, 1.0, 1.02), Option(2, 1.0, 1.1)]
    chosen = Choice(frozenset({0}), 0.1)
    assert with_company(chosen, options, lambda layers: 0.2) == Choice(frozenset({0, 1}), 0.2)
    assert with_company(chosen, options, lambda layers: MARGIN + 0.01) == chosen
    nothing = Choice(frozenset(), 0.0)
    assert with_company(nothing, options, lambda layers: 0.0) == nothing


@pytest.mark.parametrize(
    ("option", "error", "chosen", "said"),
    [
        (Option(0, 1.0, 2.0), None, False, "it would gain too little: 2.000 ms in int8, 1.000 ms in float32"),
        (
            Option(0, 2.0, 1.0, 1.5),
            0.015,
            False,
            "alone it would cost 1.5e-02 at the outputs, 150% of what is allowed",
        ),
        (Option(0, 2.0, 1.0, 0.1), 1e-3, True, "1.000 ms in int8, 2.000 ms in float32, for an error of 1.0e-03"),
        (Option(0, 2.0, 1.0, 0.1), 1e-3, False, "the bound is used up by layers that save more for their error"),
        (Option(0, 2.0, 1.0), None, False, "there was no time to measure its error"),
        (
            Option(0, 2.0, 1.0),
            None,
            True,
            "1.000 ms in int8, 2.000 ms in float32; all that gain keep the bound together",
        ),
        (Option(0, 1.0, 1.0), None, True, "it goes with its neighbours: 1.000 ms in int8"),
    ],
)
def test_each_layer_has_its_reason(option: Option, error: float | None, chosen: bool, said: str) -> None:
    assert why(option, error, chosen, "int8").startswith(said)
