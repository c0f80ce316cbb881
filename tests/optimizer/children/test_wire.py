"""Frames: what goes in comes out, and what is no frame within the limits is refused."""

from __future__ import annotations

import json
import os
import struct
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from optimizer.children import wire

KINDS = st.sampled_from(sorted(wire.DTYPES))
ARRAYS = KINDS.flatmap(lambda kind: arrays_of.arrays(kind, arrays_of.array_shapes(min_dims=0, max_dims=4, min_side=0)))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
FIELDS = st.dictionaries(
    TEXTS.filter(lambda key: key != "buffers"),
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    max_size=5,
)


def sent_and_received(header: dict[str, Any], arrays: list[np.ndarray]) -> tuple[dict[str, Any], list[np.ndarray]]:
    read, write = os.pipe()
    writer = threading.Thread(target=wire.send, args=(write, header, arrays))
    writer.start()
    try:
        return wire.receive(read)
    finally:
        writer.join()
        os.close(read)
        os.close(write)


@given(FIELDS, st.lists(ARRAYS, max_size=3))
def test_what_goes_in_comes_out(header: dict[str, Any], arrays: list[np.ndarray]) -> None:
    fields, received = sent_and_received(header, arrays)
    assert fields == header
    for sent, got in zip(arrays, received, strict=True):
        assert (got.dtype, got.shape) == (sent.dtype, sent.shape)
        assert got.tobytes() == np.ascontiguousarray(sent).tobytes()


def test_a_frame_is_what_the_documentation_says() -> None:
    parts = b"".join(bytes(part) for part in wire.encode({"op": "x"}, [np.array([1, 2], np.int16)]))
    assert parts[:4] == b"FW01"
    (length,) = struct.unpack("<I", parts[4:8])
    assert json.loads(parts[8 : 8 + length]) == {"op": "x", "buffers": [["int16", [2]]]}
    assert parts[8 + length :] == b"\x01\x00\x02\x00"


@pytest.mark.parametrize(
    "array", [np.zeros(1, np.float16), np.zeros(1, object), np.zeros(1, ">f4"), np.array("text"), np.zeros(1, complex)]
)
def test_other_kinds_of_array_do_not_travel(array: np.ndarray) -> None:
    with pytest.raises(wire.ProtocolError, match="does not travel"):
        list(wire.encode({}, [array]))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x", np.float32(1)])
def test_fields_that_are_not_json_are_refused_before_a_byte_is_written(value: Any) -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    with pytest.raises(wire.ProtocolError, match="not JSON"):
        wire.send(write, {"value": value})
    with pytest.raises(BlockingIOError):
        os.read(read, 1)
    os.close(read)
    os.close(write)


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"7", b"{", b'{"a": NaN}', b'{"a": Infinity}', b'{"a": "\\ud800"}', b"\xff", b"[" * 100_000],
)
def test_a_header_that_is_no_json_object_is_refused(text: bytes) -> None:
    with pytest.raises(wire.ProtocolError):
        wire.parse_header(text)


@pytest.mark.parametrize(
    "buffers",
    [
        7,
        [7],
        [["int8"]],
        [["int8", [1], 1]],
        [["float16", [1]]],
        [["object", [1]]],
        [[7, [1]]],
        [["int8", 1]],
        [["int8", [-1]]],
        [["int8", [1.0]]],
        [["int8", [True]]],
        [["int8", [1 << 41]]],
        [["int8", [1] * 33]],
        [["float64", [1 << 30]]],
        [["int8", [0, 1 << 39, 1 << 39]]],
        [["int8", [3 << 30]]] * 3,
        [["int8", [0]]] * 100_001,
    ],
)
def test_a_list_of_buffers_beyond_the_limits_is_refused(buffers: Any) -> None:
    with pytest.raises(wire.ProtocolError):
        wire.parse_header(json.dumps({"buffers": buffers}).encode())


def test_a_prefix_with_another_magic_or_an_enormous_length_is_refused() -> None:
    assert wire.header_bytes(b"FW01\x05\0\0\0") == 5
    for prefix in (b"FW02\x05\0\0\0", b"FW01\xff\xff\xff\xff"):
        with pytest.raises(wire.ProtocolError):
            wire.header_bytes(prefix)


def test_the_end_of_the_other_side_is_told() -> None:
    read, write = os.pipe()
    os.write(write, b"FW01")
    os.close(write)
    with pytest.raises(EOFError):
        wire.receive(read)
    os.close(read)
