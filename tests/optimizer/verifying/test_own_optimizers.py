"""The wrong ones among a runtime's own optimizers are found by leaving out ever fewer."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from optimizer.verifying.own_optimizers import guilty

NAMES = [f"o{number}" for number in range(53)]


class Runtime:
    """Right when at least one of each of `groups` is left out: each group makes a wrong answer together."""

    def __init__(self, *groups: Sequence[str]) -> None:
        self.groups, self.tries = groups, 0

    def __call__(self, left_out: Sequence[str]) -> bool:
        self.tries += 1
        return all(set(group) & set(left_out) for group in self.groups)


@pytest.mark.parametrize("name", ["o0", "o17", "o26", "o52"])
def test_one_culprit_is_found_in_few_tries(name: str) -> None:
    runtime = Runtime([name])
    assert guilty(runtime, NAMES) == [name]
    assert runtime.tries <= 2 + 2 * 6, "halves: two tries each at most"


def test_two_culprits_are_both_left_out_and_nobody_else() -> None:
    found = guilty(Runtime(["o3"], ["o40"]), NAMES, most_tries=200)
    assert found is not None and sorted(found) == ["o3", "o40"]


def test_of_two_that_are_wrong_only_together_one_is_left_out() -> None:
    found = guilty(Runtime(["o3", "o40"]), NAMES, most_tries=200)
    assert found in (["o3"], ["o40"])


def test_nobody_is_accused_where_it_is_wrong_without_all_of_them_or_right_with_all() -> None:
    assert guilty(lambda left_out: False, NAMES) is None
    assert guilty(lambda left_out: True, NAMES) is None


def test_what_is_left_when_the_tries_are_over_is_right() -> None:
    runtime = Runtime(["o3"], ["o40"])
    found = guilty(runtime, NAMES, most_tries=8)
    assert found is not None and {"o3", "o40"} <= set(found) < set(NAMES)
    assert runtime.tries == 8
