"""YAML of strangers: plain data comes back, and everything else is refused at its line."""

from __future__ import annotations

import pytest

from optimizer import plain_yaml


def test_lists_mappings_texts_and_numbers_come_back_and_json_is_read_too() -> None:
    text = "name: 模型\ninputs:\n  - {name: x, shape: [batch, 3]}\nscale: 1.5\nmissing: null\n"
    assert plain_yaml.read(text) == {
        "name": "模型",
        "inputs": [{"name": "x", "shape": ["batch", 3]}],
        "scale": 1.5,
        "missing": None,
    }
    assert plain_yaml.read('{"a": [1, "b"]}') == {"a": [1, "b"]}


def test_what_looks_like_a_date_stays_text() -> None:
    assert plain_yaml.read("a: 2020-01-02\nb: 2020-99-99\n") == {"a": "2020-01-02", "b": "2020-99-99"}


@pytest.mark.parametrize(
    ("text", "reason", "line", "column"),
    [
        ("a: [1, 2", "expected ',' or ']'", 1, 9),
        ("a: 1\nb: &x [1]\n", "anchors and aliases are not read", 2, 4),
        ("a: *x", "anchors and aliases are not read", 1, 4),
        ("a:\n  b: 1\n  b: 2\n", "'b' is repeated", 3, 3),
        ("a: 1\nyes: 2", "keys must be text", 2, 1),
        ("<<: {a: 1}", "keys must be text", 1, 1),
        ("!!python/object/apply:os.system ['true']", "could not determine a constructor", 1, 1),
        ("a: b: c", "mapping values are not allowed", 1, 5),
    ],
    ids=["open list", "anchor", "alias", "twice", "true", "merge", "object", "colon"],
)
def test_what_is_not_plain_is_refused_with_its_place(text: str, reason: str, line: int, column: int) -> None:
    with pytest.raises(plain_yaml.NotPlain) as caught:
        plain_yaml.read(text)
    assert reason in caught.value.reason
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value).endswith(f"(line {line}, column {column})")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 50_000, "nested too deeply"),
        ("a: " + "9" * 5_000, "digits"),
        ("x" * (256 * 1024 + 1), "more than 256 Ki characters"),
        ("a: \x01", "special characters"),
    ],
    ids=["deep", "number", "long", "control"],
)
def test_what_has_no_one_place_is_refused_too(text: str, reason: str) -> None:
    with pytest.raises(plain_yaml.NotPlain) as caught:
        plain_yaml.read(text)
    assert reason in str(caught.value)
    assert (caught.value.line, caught.value.column) == (None, None)
