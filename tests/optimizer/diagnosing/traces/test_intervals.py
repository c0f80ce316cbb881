"""Unions of intervals against what one counts on one's fingers."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.diagnosing.traces.intervals import Union, both, union


def of(*pairs: tuple[float, float]) -> Union:
    return union(np.array([a for a, _ in pairs], float), np.array([b for _, b in pairs], float))


def pairs(one: Union) -> list[tuple[float, float]]:
    return list(zip(one.starts.tolist(), one.ends.tolist(), strict=True))


def test_what_overlaps_or_touches_becomes_one() -> None:
    assert pairs(of((5, 7), (0, 2), (1, 3), (3, 4))) == [(0, 4), (5, 7)]


def test_an_interval_inside_another_adds_nothing() -> None:
    assert pairs(of((0, 10), (2, 3), (9, 12))) == [(0, 12)]


def test_length_and_gaps() -> None:
    one = of((0, 2), (5, 6), (8, 9))
    assert one.length == 4
    assert pairs(one.gaps()) == [(2, 5), (6, 8)]


def test_how_much_lies_within_others() -> None:
    one = of((0, 2), (5, 6))
    assert one.within(np.array([1.0, 3.0, 0.0, 6.0]), np.array([5.5, 4.0, 100.0, 5.0])).tolist() == [1.5, 0, 3, 0]


def test_what_two_have_in_common_is_the_same_both_ways() -> None:
    one, other = (
        of((0, 4), (6, 9)),
        of(
            (3, 7),
        ),
    )
    assert one.common(other) == other.common(one) == 2
    assert both(one, other).length == 9


def test_moments_are_covered_up_to_the_ends() -> None:
    assert of((1, 2), (4, 5)).covers(np.array([0.0, 1.0, 2.0, 3.0, 4.5, 6.0])).tolist() == [
        False, True, True, False, True, False,
    ]  # fmt: skip


def test_nothing_is_nothing() -> None:
    nothing = of()
    assert (nothing.length, pairs(nothing.gaps())) == (0, [])
    assert nothing.covers(np.array([1.0])).tolist() == [False]
    assert nothing.within(np.array([0.0]), np.array([1.0])).tolist() == [0]


@pytest.mark.parametrize("seed", range(5))
def test_it_agrees_with_counting_microseconds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    starts = rng.integers(0, 200, 23)
    ends = starts + rng.integers(1, 20, 23)
    covered = {moment for a, b in zip(starts, ends, strict=True) for moment in range(a, b)}
    one = union(starts.astype(float), ends.astype(float))
    assert one.length == len(covered)
    assert one.within(np.array([50.0]), np.array([123.0]))[0] == len([m for m in covered if 50 <= m < 123])
