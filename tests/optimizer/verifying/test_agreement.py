"""What is said of integers after timing: flips at ties are forgiven, cheats are not, however small the output is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from optimizer.verifying.agreement import CHANCE, Agreement, Differences, tie_share
from optimizer.verifying.numerics import Rule
from optimizer.verifying.questions import Question, Truths

FLOAT32, BFLOAT16 = Rule(), Rule(bound=2e-2)


def truths(*shape: int, sets: int = 64, ties: int = 0) -> Truths:
    """One output of integers, as verification left it: `ties` places in all were named as ties."""
    pooled = []
    for number in range(sets):
        tied = np.zeros(shape, dtype=bool)
        tied.flat[: max(0, min(tied.size, ties - number * tied.size))] = True
        truth = np.zeros(shape, dtype=np.int64)
        pooled.append(Question("random", "random", [], 1, truth=[truth], baseline=[truth], ties=[tied]))
    return Truths(["choice"], ["x"], pooled, [])


def calls_until_refused(agreement: Agreement, wrong: np.ndarray) -> int | None:
    """`wrong`: for each call, which places of its answer differ. The number of calls it took, or None."""
    for number, places in enumerate(wrong):
        expected = np.arange(places.size, dtype=np.int64).reshape(places.shape)
        reason = agreement([expected + places], [expected])
        if reason is not None:
            assert "integers over" in reason and reason.startswith("choice differs")
            return number + 1
    return None


def test_an_output_of_one_integer_that_is_wrong_half_of_the_time_is_caught_within_a_judgement() -> None:
    for seed in range(50):
        wrong = np.random.default_rng(seed).random((60, 1)) < 0.5  # six sets of ten rounds, one answer each
        caught = calls_until_refused(Agreement(truths(1), FLOAT32), wrong)
        assert caught is not None and caught <= 30, seed


def test_an_output_of_one_integer_that_is_always_wrong_is_caught_in_the_screening() -> None:
    assert calls_until_refused(Agreement(truths(1), FLOAT32), np.ones((4, 1), dtype=bool)) == 3


@pytest.mark.parametrize("at", [0, 1, 500, 999])
def test_one_tie_in_a_thousand_calls_is_no_reason(at: int) -> None:
    wrong = np.zeros((1000, 1), dtype=bool)
    wrong[at] = True
    assert calls_until_refused(Agreement(truths(1), FLOAT32), wrong) is None


def test_one_place_of_a_thousand_in_one_answer_is_no_reason_and_a_tenth_of_them_is() -> None:
    wrong = np.zeros((1, 1000), dtype=bool)
    wrong[0, 7] = True
    assert calls_until_refused(Agreement(truths(1000), FLOAT32), wrong) is None
    wrong[0, :100] = True
    assert calls_until_refused(Agreement(truths(1000), FLOAT32), wrong) == 1


def test_the_old_allowance_of_two_places_and_two_percent_is_gone() -> None:
    wrong = np.zeros((60, 256), dtype=bool)
    wrong[:, :5] = True  # 2 % of every answer
    caught = calls_until_refused(Agreement(truths(256), FLOAT32), wrong)
    assert caught is not None and caught <= 4
    wrong = np.zeros((60, 2), dtype=bool)
    wrong[:, 0] = True
    # by Poisson's law: three ties among six places at 1 % have a chance of 3.4e-5, four among eight of 1.6e-6
    assert calls_until_refused(Agreement(truths(2), FLOAT32), wrong) == 4


def test_the_pool_is_over_all_calls_and_new_for_each_measurement() -> None:
    known = truths(1)
    first = Agreement(known, FLOAT32)
    assert calls_until_refused(first, np.ones((2, 1), dtype=bool)) is None
    assert calls_until_refused(Agreement(known, FLOAT32), np.ones((2, 1), dtype=bool)) is None
    assert calls_until_refused(first, np.ones((1, 1), dtype=bool)) == 1


def test_an_exchange_of_two_places_in_one_ranking_is_one_tie() -> None:
    seen = Differences()
    seen.add(np.array([1, 0, 2, 3, 4]), np.array([0, 1, 2, 3, 4]))
    assert (seen.calls, seen.places, seen.wrong, seen.ties) == (1, 5, 2, 1)
    seen.add(np.array([1, 2, 0, 3, 4]), np.array([0, 1, 2, 3, 4]))
    assert (seen.wrong, seen.ties) == (5, 3)


def test_a_model_full_of_ties_may_flip_as_often_as_verification_saw() -> None:
    rng = np.random.default_rng(3)
    flips = rng.random((60, 4)) < 0.25
    assert calls_until_refused(Agreement(truths(4, ties=64), FLOAT32), flips) is None  # 64 of 256 places were ties
    assert calls_until_refused(Agreement(truths(4), FLOAT32), flips) is not None


def test_the_share_that_ties_explain_is_worked_out_from_verification() -> None:
    assert tie_share(truths(1), FLOAT32, 0) == pytest.approx(0.01)  # 3 / 64 possible, of which 1 % is taken
    assert tie_share(truths(100), FLOAT32, 0) == pytest.approx(3 / 6400)
    assert tie_share(truths(100, ties=32), FLOAT32, 0) == pytest.approx(2 * 32 / 6400 + 3 / 6400)
    assert tie_share(truths(100), BFLOAT16, 0) == pytest.approx(0.02)


def test_a_lower_precision_may_flip_as_many_as_its_bound_and_no_more() -> None:
    rng = np.random.default_rng(4)
    for share, refused in ((0.015, False), (0.08, True)):
        wrong = rng.random((60, 128)) < share
        assert (calls_until_refused(Agreement(truths(128), BFLOAT16), wrong) is not None) is refused


@pytest.mark.parametrize(("places", "sets"), [(1, 64), (16, 64), (256, 64), (1, 3)])
def test_honest_candidates_are_all_but_never_refused(places: int, sets: int) -> None:
    """Flips as often as one place in a thousand, or as verification could just have missed."""
    share = min(1e-3, 1 / (places * sets))
    refused = 0
    for seed in range(200):
        wrong = np.random.default_rng(seed).random((180, places)) < share
        refused += calls_until_refused(Agreement(truths(places, sets=sets), FLOAT32), wrong) is not None
    assert refused <= 1


def test_the_chance_is_that_of_so_many_ties_by_poissons_law() -> None:
    for ties, places in ((1, 1), (3, 5), (6, 60), (7, 60), (40, 4000)):
        seen = Differences(calls=1, places=places, wrong=ties, ties=ties)
        assert seen.too_many(0.01) == bool(stats.poisson.sf(ties - 1, 0.01 * places) < CHANCE)
    assert not Differences(calls=1, places=10**9).too_many(0.0)


def test_shape_dtype_and_number_of_outputs_are_compared_first() -> None:
    agreement = Agreement(truths(2), FLOAT32)
    base = np.array([1, 2])
    assert "gives 0 outputs where the original gives 1" in str(agreement([], [base]))
    assert "has shape [1]" in str(agreement([base[:1]], [base]))
    assert "is int32" in str(agreement([base.astype(np.int32)], [base]))
    assert agreement([np.zeros((0,), np.int64)], [np.zeros((0,), np.int64)]) is None


def test_booleans_are_integers_too() -> None:
    agreement = Agreement(truths(1), FLOAT32)
    answers = [agreement([np.array([True])], [np.array([False])]) for _ in range(3)]
    assert answers[:2] == [None, None] and "3 of 3 integers over 3 calls" in str(answers[2])
