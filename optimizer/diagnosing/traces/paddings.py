"""Where sequences of several lengths are padded to one, from the inputs of what pads them (`record_shapes=True`).

`pad_sequence` is given the sequences one by one; operations on jagged tensors are given all values and the longest
length. Silent for code that pads in other ways: then no operation is told a length.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

SEQUENCES = "aten::pad_sequence"
JAGGED = ("fbgemm::jagged_to_padded_dense", "aten::_jagged_to_padded_dense_forward")
PADS = frozenset({SEQUENCES, *JAGGED})
MAX_SIZES, MAX_NAMES = 4_096, 1_000
LENGTHS = re.compile(r"\[(\d{1,9})\]")


@dataclass
class Padded:
    """All calls of one operation that pads: positions afterwards, and those of them that hold something."""

    calls: int = 0
    positions: int = 0
    filled: int = 0


@dataclass
class Paddings:
    """`on_padding`: calls of operations whose inputs have the size of something padded before them."""

    found: dict[str, Padded] = field(default_factory=dict)
    on_padding: Counter[str] = field(default_factory=Counter)
    sizes: set[tuple[int, ...]] = field(default_factory=set)

    def pad(self, name: str, args: dict[str, Any]) -> None:
        dims = args.get("Input Dims")
        if not isinstance(dims, list) or not dims:
            return
        told = _sequences(dims) if name == SEQUENCES else _jagged(dims, args.get("Concrete Inputs"))
        if told is None:
            return
        count, longest, filled = told
        row = self.found.setdefault(name, Padded())
        row.calls += 1
        row.positions += count * longest
        row.filled += min(filled, count * longest)
        if len(self.sizes) < MAX_SIZES:
            self.sizes |= {(count, longest), (longest, count), (count * longest,)}

    def see(self, name: str, dims: object) -> None:
        """Called for every operation once something was padded."""
        is_known = name in self.on_padding or len(self.on_padding) < MAX_NAMES
        if is_known and isinstance(dims, list) and self._is_padded([shape for shape in dims if _is_matrix(shape)]):
            self.on_padding[name] += 1

    def _is_padded(self, shapes: list[list[int]]) -> bool:
        """Batch and positions come first, or (with heads between them) first and third. As one dimension only the
        first of several inputs counts: a weight may be of that size, too."""
        sizes = self.sizes
        if shapes and (shapes[0][0],) in sizes:
            return True
        return any((s[0], s[1]) in sizes or (len(s) > 3 and (s[0], s[2]) in sizes) for s in shapes if len(s) > 2)


def _sequences(dims: list[Any]) -> tuple[int, int, int] | None:
    """(sequences, the longest, all lengths together)."""
    listed = dims[0]
    if not isinstance(listed, list) or len(listed) < 2:
        return None
    lengths = [shape[0] for shape in listed if isinstance(shape, list) and shape and _is_size(shape[0])]
    if len(lengths) != len(listed) or not max(lengths):
        return None
    return len(lengths), max(lengths), sum(lengths)


def _jagged(dims: list[Any], concrete: object) -> tuple[int, int, int] | None:
    """Values `[all lengths, width]`, offsets of one dimension, and the longest length as it was given."""
    values, offsets = dims[0], dims[1] if len(dims) > 1 else None
    longest = LENGTHS.fullmatch(str(concrete[2])) if isinstance(concrete, list) and len(concrete) > 2 else None
    if longest is None or not isinstance(values, list) or not values or not _is_size(values[0]):
        return None
    if not isinstance(offsets, list) or len(offsets) != 1 or not isinstance(offsets[0], list) or len(offsets[0]) != 1:
        return None
    sequences, size = offsets[0][0], int(longest[1])
    return (sequences - 1, size, values[0]) if _is_size(sequences) and sequences > 1 and size else None


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 31


def _is_matrix(shape: object) -> bool:
    return isinstance(shape, list) and 1 < len(shape) < 8 and all(type(size) is int for size in shape)
