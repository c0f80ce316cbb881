"""Conditions as rows, and what differs between the conditions of several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LONG = 120


@dataclass(frozen=True)
class Fact:
    """`key` is dotted: `libraries.torch`. A long value is folded away on the page."""

    key: str
    value: str

    @property
    def is_long(self) -> bool:
        return len(self.value) > LONG


def flat(document: Mapping[str, Any] | None, prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one level of dotted keys; lists of mappings get their index or name as a part of the key."""
    found: dict[str, Any] = {}
    for key, value in (document or {}).items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found.update(flat(value, f"{path}.") or {path: {}})
        elif isinstance(value, (list, tuple)) and value and all(isinstance(one, Mapping) for one in value):
            for index, one in enumerate(value):
                found.update(flat(one, f"{path}.{one.get('name', index)}."))
        else:
            found[path] = value
    return found


def facts(document: Mapping[str, Any] | None) -> list[Fact]:
    return [Fact(key, in_words(value)) for key, value in flat(document).items()]


def in_words(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, (list, tuple)):
        return ", ".join(in_words(one) for one in value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={in_words(one)}" for key, one in value.items()) or "–"
    return str(value)


@dataclass(frozen=True)
class Difference:
    """One thing that must be equal and is not. `values` stand in the order of the runs."""

    key: str
    values: list[str]


def differences(documents: Sequence[Mapping[str, Any] | None], prefix: str = "") -> list[Difference]:
    """The keys whose values are not the same in all `documents`, sorted; of long lists only what is not in all."""
    flattened = [flat(document) for document in documents]
    keys = sorted({key for one in flattened for key in one})
    found = []
    for key in keys:
        values = [one.get(key) for one in flattened]
        if all(value == values[0] and (key in one) for value, one in zip(values, flattened, strict=True)):
            continue
        found.append(Difference(f"{prefix}{key}", [in_words(value) for value in _without_common(values)]))
    return found


def _without_common(values: list[Any]) -> list[Any]:
    """Two lists of a hundred instruction set flags differ in one: only that one is worth reading."""
    if not all(isinstance(value, list) and all(isinstance(one, str) for one in value) for value in values):
        return values
    common = set.intersection(*(set(value) for value in values))
    return [[one for one in value if one not in common] for value in values]
