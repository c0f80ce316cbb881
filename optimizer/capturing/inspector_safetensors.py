"""The header of a safetensors file: sizes, dtypes and offsets that fit the file. Reads no tensor."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from optimizer.capturing import inspector_json
from optimizer.errors import FuseworksError

MAX_HEADER_BYTES = 16 << 20
MAX_TENSORS = 50_000
MAX_RANK = 16
BITS = {
    "F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U8": 8, "BOOL": 8,
    "U64": 64, "U32": 32, "U16": 16, "F8_E4M3": 8, "F8_E5M2": 8,
}  # fmt: skip


def inspect_safetensors(name: str, size_bytes: int, start: Callable[[int], bytes]) -> int:
    """`start(n)` gives the first n bytes. Answers the number of tensors. Raises FuseworksError."""

    def refuse(text: str) -> FuseworksError:
        return FuseworksError("inspecting:user:bad-safetensors", place=name, file=name, text=text)

    if size_bytes < 8:
        raise refuse("it is shorter than its header")
    (length,) = struct.unpack("<Q", start(8))
    if not 2 <= length <= min(MAX_HEADER_BYTES, size_bytes - 8):
        raise refuse(f"its header claims {length} bytes")
    try:
        header = inspector_json.load(start(8 + length)[8:])
    except inspector_json.NotAllowed as error:
        raise refuse(str(error)) from error
    if not isinstance(header, dict) or len(header) > MAX_TENSORS:
        raise refuse(f"it names more than {MAX_TENSORS} tensors, or none")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise refuse("its metadata are not texts")
    end = 0
    for tensor, value in sorted(header.items(), key=lambda item: _start_of(item[1])):
        end = _checked(tensor, value, end, refuse)
    if end != size_bytes - 8 - length:
        raise refuse(f"its tensors end at {end}, its bytes at {size_bytes - 8 - length}")
    return len(header)


def _start_of(value: object) -> int:
    offsets = value.get("data_offsets") if isinstance(value, dict) else None
    return offsets[0] if isinstance(offsets, list) and offsets and type(offsets[0]) is int else -1


def _checked(tensor: str, value: object, begins: int, refuse: Callable[[str], FuseworksError]) -> int:
    """Answers where the tensor ends; it must begin where the one before it ended."""
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise refuse(f"{tensor[:80]!r} is not described as a tensor")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    plain = isinstance(shape, list) and len(shape) <= MAX_RANK
    if dtype not in BITS or not plain or not all(type(d) is int and 0 <= d < 1 << 48 for d in shape):
        raise refuse(f"{tensor[:80]!r} has an unknown dtype or shape")
    if not (isinstance(offsets, list) and len(offsets) == 2 and all(type(o) is int for o in offsets)):
        raise refuse(f"{tensor[:80]!r} has no offsets")
    if offsets[0] != begins or (offsets[1] - offsets[0]) * 8 != math.prod(shape) * BITS[dtype]:
        raise refuse(f"{tensor[:80]!r} does not lie where its shape says")
    return int(offsets[1])
