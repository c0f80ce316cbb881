"""Which steps of a plan are a finding's remedy, and what one plan has beyond another."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.diagnosing.remedies import difference, is_remedy, remedy_of

ALLOCATOR: dict[str, Any] = {"runtime": {"allocator": "glibc-no-trim", "huge_pages": True}}
ENGINE: dict[str, Any] = {"backend": "eager"}


def test_a_remedy_is_named_by_its_passes_and_settings() -> None:
    assert remedy_of([{"pass": "split"}]) == "pass split"
    assert remedy_of([{"pass": "b"}, {"pass": "a"}]) == "pass a + pass b"
    assert remedy_of([ALLOCATOR]) == "setting allocator + setting huge_pages"
    assert remedy_of([]) == ""


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([{"pass": "split", "options": {"most": 3}}], True),
        ([{"pass": "split"}, {"pass": "merge"}], False),  # measured together: nothing is known of either
        ([{"pass": "merge"}], False),
        ([], False),
        ([{"pass": "split"}, ALLOCATOR], False),
        ([{"pass": "split"}, ENGINE], False),
    ],
)
def test_a_pass_is_the_remedy_by_itself_whatever_its_options(steps: list[dict[str, Any]], expected: bool) -> None:
    assert is_remedy(steps, [{"pass": "split"}]) is expected


def test_settings_are_the_remedy_where_nothing_else_is_set() -> None:
    assert is_remedy([ALLOCATOR], [ALLOCATOR])
    # a machine without huge pages leaves them out
    assert is_remedy([{"runtime": {"allocator": "glibc-no-trim"}}], [ALLOCATOR])
    assert not is_remedy([{"runtime": {"allocator": "glibc-no-trim", "denormals": "flushed"}}], [ALLOCATOR])
    assert not is_remedy([{"runtime": {"threads": 2}}], [{"runtime": {"threads": 1}}])


def test_the_difference_of_two_plans_is_what_one_has_beyond_the_other() -> None:
    whole: list[dict[str, Any]] = [
        {"runtime": {"huge_pages": True, "threads": 1}},
        {"pass": "split"},
        {"pass": "merge"},
        ENGINE,
    ]
    without: list[dict[str, Any]] = [{"runtime": {"huge_pages": True}}, {"pass": "merge"}, ENGINE]
    assert difference(whole, without) == [{"runtime": {"threads": 1}}, {"pass": "split"}]
    assert difference(whole, whole) == []


def test_a_plan_on_another_engine_or_with_a_step_of_its_own_is_no_part() -> None:
    whole: list[dict[str, Any]] = [{"pass": "split"}, ENGINE]
    assert difference(whole, [{"backend": "openvino"}]) is None
    assert difference(whole, [{"pass": "merge"}, ENGINE]) is None
    assert difference(whole, [{"runtime": {"threads": 1}}, {"pass": "split"}, ENGINE]) is None
