"""The wire: a JSON header and raw arrays with declared dtype and shape, under limits. Either end may be hostile.

Frame: magic `FW01`, little-endian uint32 header length, the JSON header, then the buffers in order. The header's
`buffers` lists `[dtype, shape]`. bfloat16 and float16 never travel: the child hands them over as float32.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

MAGIC = b"FW01"
MAX_HEADER_BYTES = 64 << 20
MAX_BUFFER_BYTES = 4 << 30
MAX_FRAME_BYTES = 8 << 30
DTYPES = frozenset({"float32", "float64", "int64", "int32", "int16", "int8", "uint8", "bool"})


class ProtocolError(Exception):
    """The other end sent something that is not a frame within the limits."""


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


def write_all(fd: int, data: bytes | memoryview) -> None:
    view = memoryview(data).cast("B")
    while len(view):
        view = view[os.write(fd, view) :]


def send(fd: int, header: dict[str, Any], arrays: Sequence[np.ndarray] = ()) -> None:
    arrays = [np.ascontiguousarray(a) for a in arrays]
    for array in arrays:
        if array.dtype.name not in DTYPES:
            raise ProtocolError(f"dtype {array.dtype.name} does not travel")
    # ascontiguousarray turns a 0-d array into shape (1,), so shapes are those of the contiguous copies; scalars are (1,)
    text = json.dumps({**header, "buffers": [[a.dtype.name, list(a.shape)] for a in arrays]}).encode()
    if len(text) > MAX_HEADER_BYTES:
        raise ProtocolError(f"header of {len(text)} bytes")
    write_all(fd, MAGIC + struct.pack("<I", len(text)) + text)
    for array in arrays:
        if array.nbytes:
            write_all(fd, array.reshape(-1).view(np.uint8).data)


def receive(fd: int) -> tuple[dict[str, Any], list[np.ndarray]]:
    """One frame. Raises EOFError, ProtocolError."""
    prefix = read_exactly(fd, 8)
    if bytes(prefix[:4]) != MAGIC:
        raise ProtocolError("no frame starts here")
    (length,) = struct.unpack("<I", prefix[4:])
    if length > MAX_HEADER_BYTES:
        raise ProtocolError(f"header of {length} bytes")
    try:
        header = json.loads(bytes(read_exactly(fd, length)))
    except (ValueError, RecursionError) as error:
        raise ProtocolError("the header is not JSON") from error
    if not isinstance(header, dict):
        raise ProtocolError("the header is not an object")
    buffers = header.pop("buffers", [])
    if not isinstance(buffers, list) or len(buffers) > 100_000:
        raise ProtocolError("bad buffer list")
    sizes = [_checked(entry) for entry in buffers]
    if sum(size for _, _, size in sizes) > MAX_FRAME_BYTES:
        raise ProtocolError("the buffers exceed the frame's limit")
    return header, [np.frombuffer(read_exactly(fd, n), dtype).reshape(shape) for dtype, shape, n in sizes]


def _checked(entry: object) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    if not (isinstance(entry, list) and len(entry) == 2 and entry[0] in DTYPES and isinstance(entry[1], list)):
        raise ProtocolError(f"bad buffer {str(entry)[:80]}")
    shape = entry[1]
    if len(shape) > 32 or not all(type(d) is int and 0 <= d < 1 << 40 for d in shape):
        raise ProtocolError("bad buffer shape")
    dtype = np.dtype(entry[0])
    size = dtype.itemsize * math.prod(shape)
    if size > MAX_BUFFER_BYTES:
        raise ProtocolError(f"buffer of {size} bytes")
    return dtype, tuple(shape), size
