"""The wire: a JSON header and raw arrays with declared dtype and shape, under limits. Either end may be hostile.

Frame: magic `FW01`, little-endian uint32 header length, the JSON header, then the buffers in order. The header's
`buffers` lists `[dtype, shape]`. bfloat16 and float16 never travel: the child hands them over as float32.
The blocking `send` and `receive` here are the child's; the coordinator's end has deadlines (`sandbox/channel.py`).
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

MAGIC = b"FW01"
PREFIX_BYTES = 8
MAX_HEADER_BYTES = 16 << 20
MAX_BUFFERS = 100_000
MAX_BUFFER_BYTES = 4 << 30
MAX_FRAME_BYTES = 8 << 30
DTYPES = frozenset({"float32", "float64", "int64", "int32", "int16", "int8", "uint8", "bool"})

Layout = list[tuple[np.dtype[Any], tuple[int, ...], int]]


class ProtocolError(Exception):
    """The other end sent something that is not a frame within the limits."""


def write_all(fd: int, data: bytes | memoryview) -> None:
    view = memoryview(data).cast("B")
    while len(view):
        view = view[os.write(fd, view) :]


def encode(header: dict[str, Any], arrays: Sequence[np.ndarray]) -> Iterator[bytes | memoryview]:
    """The parts of a frame. Raises ProtocolError for what cannot travel, before anything is sent."""
    # np.ascontiguousarray would turn a 0-d array into shape (1,)
    arrays = [np.asarray(a, order="C") for a in arrays]
    for array in arrays:
        if array.dtype.name not in DTYPES or not array.dtype.isnative:
            raise ProtocolError(f"dtype {array.dtype.str} does not travel")
    described = {**header, "buffers": [[a.dtype.name, list(a.shape)] for a in arrays]}
    try:
        text = json.dumps(described, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ProtocolError(f"the header is not JSON: {error}") from error
    if len(text) > MAX_HEADER_BYTES:
        raise ProtocolError(f"header of {len(text)} bytes")
    parts: list[bytes | memoryview] = [MAGIC + struct.pack("<I", len(text)) + text]
    parts += [array.reshape(-1).view(np.uint8).data for array in arrays if array.nbytes]
    return iter(parts)


def header_bytes(prefix: bytes | bytearray) -> int:
    """Length of the header that follows these PREFIX_BYTES."""
    if bytes(prefix[:4]) != MAGIC:
        raise ProtocolError("no frame starts where one must")
    (length,) = struct.unpack("<I", prefix[4:])
    if length > MAX_HEADER_BYTES:
        raise ProtocolError(f"header of {length} bytes")
    return int(length)


def parse_header(text: bytes | bytearray) -> tuple[dict[str, Any], Layout]:
    """The header without its buffers, and their layout."""
    try:
        header = json.loads(bytes(text), parse_constant=_no_constant)
        if b"\\ud" in text or b"\\uD" in text:
            json.dumps(header, ensure_ascii=False).encode()  # half a surrogate pair breaks whoever prints it later
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"the header is not JSON: {str(error)[:200]}") from error
    if not isinstance(header, dict):
        raise ProtocolError("the header is not an object")
    buffers = header.pop("buffers", [])
    if not isinstance(buffers, list) or len(buffers) > MAX_BUFFERS:
        raise ProtocolError("bad buffer list")
    layout = [_checked(entry) for entry in buffers]
    if sum(size for _, _, size in layout) > MAX_FRAME_BYTES:
        raise ProtocolError("the buffers exceed the frame's limit")
    return header, layout


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _checked(entry: object) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str) and isinstance(entry[1], list)):
        raise ProtocolError(f"bad buffer {str(entry)[:80]}")
    name, shape = entry
    if name not in DTYPES:
        raise ProtocolError(f"dtype {name[:40]!r} does not travel")
    if len(shape) > 32 or not all(type(d) is int and 0 <= d < 1 << 40 for d in shape):
        raise ProtocolError("bad buffer shape")
    dtype = np.dtype(name)
    size = dtype.itemsize * math.prod(shape)
    # numpy itself refuses shapes whose other dims overflow, also where one dim is 0
    if size > MAX_BUFFER_BYTES or math.prod(max(d, 1) for d in shape) >= 1 << 60:
        raise ProtocolError(f"buffer of shape {str(shape)[:80]}")
    return dtype, tuple(shape), size


def read_exactly(fd: int, size: int) -> bytearray:
    """Reads `size` bytes. Raises EOFError when the other end is gone."""
    buffer = bytearray(size)
    view, at = memoryview(buffer), 0
    while at < size:
        got = os.readv(fd, [view[at:]])
        if got == 0:
            raise EOFError("the other end closed the wire")
        at += got
    return buffer


def send(fd: int, header: dict[str, Any], arrays: Sequence[np.ndarray] = ()) -> None:
    """Blocks until all is written. Raises ProtocolError, before it wrote anything."""
    for part in encode(header, arrays):
        write_all(fd, part)


def receive(fd: int) -> tuple[dict[str, Any], list[np.ndarray]]:
    """One frame; blocks. Raises EOFError, ProtocolError."""
    length = header_bytes(read_exactly(fd, PREFIX_BYTES))
    header, layout = parse_header(read_exactly(fd, length))
    return header, [np.frombuffer(read_exactly(fd, n), dtype).reshape(shape) for dtype, shape, n in layout]
