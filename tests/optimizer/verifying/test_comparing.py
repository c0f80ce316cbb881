"""Two models' answers to the same inputs: how far apart, in units of the first one's own spread."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.verifying.comparing import ALIKE, compare_answers, in_words

# per position over the samples: mean 2, differences -1 and 1, so a spread of 1
FIRST = [[np.array([[1.0], [3.0]], dtype=np.float32)], [np.array([[3.0], [1.0]], dtype=np.float32)]]


def shifted(by: float) -> list[list[np.ndarray]]:
    return [[array + np.float32(by) for array in answer] for answer in FIRST]


def test_the_difference_is_in_units_of_the_first_ones_spread() -> None:
    (row,), notes = compare_answers(["score"], FIRST, shifted(0.25), [2, 2])
    assert notes == []
    assert row.error == pytest.approx(0.25)
    assert (row.output, row.dtype, row.samples, row.passed) == ("score", "float32", 4, False)
    assert row.max_abs_error == pytest.approx(0.25)
    assert row.reason == "differs by 2.50e-01 of the spread"
    assert in_words([row], notes) == "Their answers differ: score differs by 2.50e-01 of the spread."


def test_equal_answers_and_rounding_are_alike() -> None:
    (row,), _ = compare_answers(["score"], FIRST, FIRST, [2, 2])
    assert row.passed and row.error == 0.0 and row.allowed == ALIKE
    (row,), notes = compare_answers(["score"], FIRST, shifted(1e-6), [2, 2])
    assert row.passed and 0 < row.error < ALIKE
    assert in_words([row], notes).startswith("Their answers are alike: at most ")


def test_the_allowance_can_be_the_workloads_own() -> None:
    (row,), _ = compare_answers(["score"], FIRST, shifted(0.25), [2, 2], alike=0.3)
    assert row.passed


def test_another_dtype_of_floats_is_compared_by_value() -> None:
    half = [[array.astype(np.float64) for array in answer] for answer in FIRST]
    (row,), _ = compare_answers(["score"], FIRST, half, [2, 2])
    assert row.passed and row.error == 0.0


def test_nan_where_the_first_has_a_number_is_a_difference() -> None:
    other = shifted(0.0)
    other[1][0][0, 0] = np.nan
    (row,), _ = compare_answers(["score"], FIRST, other, [2, 2])
    assert not row.passed and "is NaN at [0, 0]" in str(row.reason)


def test_integers_are_counted() -> None:
    first = [[np.array([1, 2, 3])], [np.array([4, 5, 6])]]
    second = [[np.array([1, 2, 3])], [np.array([4, 9, 6])]]
    (row,), notes = compare_answers(["choice"], first, second, [3, 3])
    assert row.error == pytest.approx(1 / 6) and row.max_abs_error == 4.0
    assert row.reason == "differs in 1 of 6 integers"
    assert in_words([row], notes) == "Their answers differ: choice differs in 1 of 6 integers."


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ([[np.zeros((2, 2), np.float32)]] * 2, "The answers score were not compared: shapes [2, 1] and [2, 2]."),
        ([[np.zeros((2, 1), np.int64)]] * 2, "The answers score were not compared: float32 and int64."),
        ([[]] * 2, "The answers were not compared: 0 or 1 outputs."),
    ],
)
def test_what_cannot_be_compared_is_named(second: list[list[np.ndarray]], told: str) -> None:
    rows, notes = compare_answers(["score"], FIRST, second, [2, 2])
    assert rows == [] and notes == [told]
    assert in_words(rows, notes) == "Their answers could not be compared."


def test_one_output_that_cannot_be_compared_leaves_the_others() -> None:
    first = [[*answer, np.zeros(2)] for answer in FIRST]
    second = [[*answer, np.zeros(3)] for answer in FIRST]
    (row,), notes = compare_answers(["score", "extra"], first, second, [2, 2])
    assert row.output == "score" and len(notes) == 1
    assert in_words([row], notes).endswith("apart, as far as they can be compared.")


def test_outputs_without_known_names_are_numbered() -> None:
    (row,), _ = compare_answers([], FIRST, FIRST, [2, 2])
    assert row.output == "output 0"


def test_the_worst_is_told_and_the_others_are_counted() -> None:
    first = [[*answer, *answer] for answer in FIRST]
    second = [[one[0], two[0]] for one, two in zip(shifted(0.1), shifted(0.5), strict=True)]
    rows, notes = compare_answers(["a", "b"], first, second, [2, 2])
    told = in_words(rows, notes)
    assert told == "Their answers differ: b differs by 5.00e-01 of the spread (and 1 more)."
