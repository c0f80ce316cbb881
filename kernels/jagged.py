"""How graphs say which values belong to which sequence, when sequences lie end to end: by offsets or by lengths.

Sequence b holds values[offsets[b]:offsets[b + 1]]. Only recognises. Not for: sequences that are chosen by a mask out of
a padded batch (`padded[mask]`): how many values there are is known at run time alone, and no graph holds the offsets.
"""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from kernels.patterns import Found, Hole, Made, Pattern, anything, arguments, aten, call, either, shared, sub, tensor
from kernels.spellings import column

_STARTS = shared(call(aten.slice.Tensor, tensor("offsets"), 0, 0, -1))
_ENDS = shared(call(aten.slice.Tensor, tensor("offsets"), 0, 1, anything()))


def counting(name: str) -> Hole:
    """0, 1, 2, and so on."""

    def counts(node: Any) -> bool:
        if not isinstance(node, Node) or node.target not in (aten.arange.default, aten.arange.start):
            return False
        return arguments(node).get("start", 0) == 0 and not node.meta["val"].is_floating_point()

    return Hole(name, counts)


def filled(name: str, number: float) -> Hole:
    """A tensor of nothing but this number."""

    def holds(node: Any) -> bool:
        if not isinstance(node, Node) or node.op != "call_function":
            return False
        if node.target in (aten.full.default, aten.new_full.default, aten.full_like.default):
            return bool(arguments(node)["fill_value"] == number)
        return number == 0 and node.target in (aten.zeros.default, aten.new_zeros.default, aten.zeros_like.default)

    return Hole(name, holds)


def ends() -> Pattern:
    return column(_ENDS)


def starts() -> Pattern:
    return column(_STARTS)


def lengths() -> Pattern:
    return either(shared(sub(_ENDS, _STARTS)), shared(call(aten.diff.default, tensor("offsets"))), tensor("lengths"))


def sequence_of_each() -> Pattern:
    """The number of the sequence that each value belongs to. `place` counts the values, where it is there."""
    place = counting("place")
    found = either(
        call(aten.searchsorted.Tensor, tensor("offsets"), place, right=True),
        call(aten.bucketize.Tensor, place, tensor("offsets"), right=True),
    )
    repeated = call(aten.repeat_interleave.Tensor, lengths(), output_size=anything())
    return either(shared(sub(found, 1)), shared(repeated))


def offsets_of(found: Found) -> Any:
    """The offsets that a pattern captured, or made out of the lengths."""
    if "offsets" in found.values:
        return found["offsets"]
    ends_alone = Made(aten.cumsum.default, (found["lengths"], 0))
    return Made(aten.constant_pad_nd.default, (ends_alone, [1, 0]))
