"""What strangers wrote, made storable."""

from __future__ import annotations

import math

import pytest

from fuseworks.runs.scrub import MAX_DEPTH, TooDeep, storable, text


def test_nul_is_dropped_and_a_lone_surrogate_replaced() -> None:
    assert text("a\x00b\ud800c") == "ab?c"


def test_a_text_is_cut_by_characters_and_whole_pairs_stay() -> None:
    assert text("\U0001f600" * 5, 3) == "\U0001f600" * 3


def test_what_json_cannot_say_becomes_null() -> None:
    assert storable({"a": [math.nan, math.inf, 1.5, True, None, 7]}) == {"a": [None, None, 1.5, True, None, 7]}


def test_keys_are_scrubbed_too() -> None:
    assert storable({"k\x00ey": "v\x00"}) == {"key": "v"}


def test_what_is_nested_too_deep_is_refused_and_one_less_is_not() -> None:
    document: object = "x"
    for _ in range(MAX_DEPTH):
        document = [document]
    assert storable(document) == document
    with pytest.raises(TooDeep):
        storable([document])
