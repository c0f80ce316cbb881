"""A document is read piece by piece, wherever the pieces end; what is broken is refused with its place."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from optimizer.diagnosing.traces import json_stream
from optimizer.diagnosing.traces.json_stream import JsonStream
from optimizer.errors import FuseworksError

EVENTS = [{"name": 'a "}],[{" b', "ts": 1.5, "args": {"x": [1, [2]]}}, {"name": "é\n", "ts": 12345678}, {}]
DOCUMENT = {"schemaVersion": 12, "deviceProperties": [{"id": 0}], "traceEvents": EVENTS, "traceName": "t"}


def cut(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


def walked(stream: JsonStream) -> dict[str, object]:
    assert stream.opening() == "{"
    return {key: list(stream.array()) if key == "traceEvents" else stream.value() for key in stream.each_key()}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 10_000])
def test_it_reads_the_same_wherever_a_piece_ends(size: int, indent: int | None) -> None:
    text = json.dumps(DOCUMENT, indent=indent, ensure_ascii=False)
    assert walked(JsonStream(cut(text, size))) == DOCUMENT


@pytest.mark.parametrize("size", [1, 5])
def test_a_number_that_goes_on_in_the_next_piece_is_one_number(size: int) -> None:
    assert walked(JsonStream(cut('{"a": 123456, "b": 7}', size))) == {"a": 123456, "b": 7}


def test_a_bare_list_is_read_too() -> None:
    stream = JsonStream(iter(["[{}, ", '{"a": 1}]']))
    assert stream.opening() == "["
    assert list(stream.rest_of_array()) == [{}, {"a": 1}]


def test_it_forgives_what_profilers_write() -> None:
    stream = JsonStream(iter(['{"traceEvents": [{"a": NaN}, {"b": -Infinity},\n {"c": "tab\there"},\n]}']))
    assert walked(stream) == {"traceEvents": [{"a": None}, {"b": None}, {"c": "tab\there"}]}


def test_a_file_that_ends_in_an_event_says_after_how_many() -> None:
    with pytest.raises(FuseworksError) as caught:
        walked(JsonStream(iter(['{"traceEvents": [{"a": 1}, {"b": 2}, {"name": "half'])))
    assert caught.value.id == "diagnosing:user:cut-off"
    assert "after 2 events" in caught.value.message


@pytest.mark.parametrize("text", ['{"traceEvents": [{"a": 1}', '{"traceEvents": [{"a": 1}]', '{"traceEvents"', "{"])
def test_a_file_that_ends_anywhere_else_is_cut_off_too(text: str) -> None:
    with pytest.raises(FuseworksError) as caught:
        walked(JsonStream(iter([text])))
    assert caught.value.id == "diagnosing:user:cut-off"


def test_what_is_no_json_is_refused_with_its_place() -> None:
    with pytest.raises(FuseworksError) as caught:
        walked(JsonStream(iter(['{"traceEvents": [{"a": 1}, {"b" 2}, {"c": 3}]}'])))
    assert caught.value.id == "diagnosing:user:not-json"
    assert caught.value.place == "at character 27"  # where the second event begins


def test_nesting_without_end_is_refused_and_costs_no_stack() -> None:
    with pytest.raises(FuseworksError) as caught:
        walked(JsonStream(iter(['{"traceEvents": [' + '{"a":' * 200_000])))
    assert caught.value.id in ("diagnosing:user:not-json", "diagnosing:user:cut-off")


def test_a_number_of_a_million_digits_is_refused() -> None:
    with pytest.raises(FuseworksError) as caught:
        walked(JsonStream(iter(['{"traceEvents": [{"ts": ' + "1" * 1_000_000 + "}]}"])))
    assert caught.value.id == "diagnosing:user:not-json"


def test_one_value_never_takes_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "MAX_VALUE_CHARS", 10_000)
    endless = (part for part in ['{"traceEvents": [{"name": "', *(["x" * 1000] * 1_000_000)])
    with pytest.raises(FuseworksError) as caught:
        walked(JsonStream(endless))
    assert caught.value.id == "diagnosing:user:not-json"
    assert next(endless) == "x" * 1000  # it stopped long before the end


def test_events_that_are_no_list_are_refused() -> None:
    with pytest.raises(FuseworksError) as caught:
        walked(JsonStream(iter(['{"traceEvents": {"a": 1}}'])))
    assert caught.value.id == "diagnosing:user:not-json"
