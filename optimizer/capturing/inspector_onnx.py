"""ONNX models by their outer protobuf structure: fields, sizes, and where weights are kept. Loads nothing.

Subgraphs and operators are the child's matter (`onnx.checker`, in the sandbox).
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import BinaryIO

from optimizer.capturing.inspector_archive import Archive
from optimizer.errors import FuseworksError

MAX_MODEL_BYTES = 2 << 30
MAX_IR_VERSION = 64
MAX_TOP_FIELDS = 200_000
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
# ModelProto's, GraphProto's and TensorProto's field numbers
IR_VERSION, GRAPH, OPSET_IMPORT = 1, 7, 8
MODEL_FIELDS = {1: VARINT, 2: BYTES, 3: BYTES, 4: BYTES, 5: VARINT, 6: BYTES, 7: BYTES, 8: BYTES, 14: BYTES, 20: BYTES,
                25: BYTES, 26: BYTES}  # fmt: skip
NODE, INITIALIZER = 1, 5
EXTERNAL_DATA, DATA_LOCATION = 13, 14
KEY, VALUE = 1, 2

Buffer = memoryview


class Malformed(Exception):
    """The bytes are no protobuf message of this kind."""


def fields(buffer: Buffer) -> Iterator[tuple[int, int, int | Buffer]]:
    """`(number, wire type, value)` of one message's own fields. Raises Malformed."""
    at, size = 0, len(buffer)
    while at < size:
        tag, at = _varint(buffer, at)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise Malformed("a field has number 0")
        if kind == VARINT:
            value, at = _varint(buffer, at)
            yield number, kind, value
        elif kind in (BYTES, FIXED64, FIXED32):
            length, at = _varint(buffer, at) if kind == BYTES else (8 if kind == FIXED64 else 4, at)
            if at + length > size:
                raise Malformed(f"field {number} claims more bytes than there are")
            yield number, kind, buffer[at : at + length]
            at += length
        else:
            raise Malformed(f"field {number} has the unknown wire type {kind}")


def _varint(buffer: Buffer, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(buffer):
            break
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise Malformed("a number does not end")


def external_locations(model: Buffer) -> list[str]:
    """Checks the model's outer structure; answers the files in which its graph keeps tensors. Raises Malformed."""
    graphs, opsets, ir_version = [], 0, 0
    for count, (number, kind, value) in enumerate(fields(model)):
        if MODEL_FIELDS.get(number) != kind or count > MAX_TOP_FIELDS:
            raise Malformed(f"field {number} does not belong into a model")
        if number == GRAPH:
            graphs.append(value)
        opsets += number == OPSET_IMPORT
        ir_version = int(value) if number == IR_VERSION and isinstance(value, int) else ir_version
    if len(graphs) != 1 or not isinstance(graphs[0], memoryview):
        raise Malformed(f"it has {len(graphs)} graphs, not one")
    if not 1 <= ir_version <= MAX_IR_VERSION or not opsets:
        raise Malformed("it names no ONNX version or no operator set")
    return _locations(graphs[0])


def _locations(graph: Buffer) -> list[str]:
    nodes, found = 0, []
    for number, _, value in fields(graph):
        nodes += number == NODE
        if number == INITIALIZER and isinstance(value, memoryview):
            found += _location(value)
    if not nodes:
        raise Malformed("its graph has no node")
    return list(dict.fromkeys(found))


def _location(tensor: Buffer) -> list[str]:
    entries, is_external = [], False
    for number, _, value in fields(tensor):
        if number == DATA_LOCATION:
            is_external = value == 1
        elif number == EXTERNAL_DATA and isinstance(value, memoryview):
            pair = {key: text for key, _, text in fields(value)}
            entries.append(pair)
    places = [bytes(p[VALUE]).decode("utf-8", "replace") for p in entries if bytes(p.get(KEY, b"")) == b"location"]
    return places if is_external or entries else []


def inspect_onnx_file(file: BinaryIO, name: str) -> None:
    """A lone `.onnx`: whole in itself. Raises FuseworksError (`inspecting:user:bad-onnx`, `...:external-data`)."""
    # not closed by hand: an error's traceback still holds views of it, and closing would fail
    view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    for location in _checked(view, len(view), name):
        raise FuseworksError("inspecting:user:external-data", place=name, location=location[:200], text="is not there")


def inspect_onnx_zip(archive: Archive, model: str, names: list[str]) -> None:
    """One `.onnx` in a zip, with exactly the data files that it names beside it."""
    data = archive.read(model, MAX_MODEL_BYTES)
    folder = model.rpartition("/")[0]
    wanted = set()
    for location in _checked(memoryview(data), len(data), model):
        parts = location.split("/")
        if location.startswith("/") or "\\" in location or any(part in ("", ".", "..") for part in parts):
            text = "is not a plain name beside the model"
            raise FuseworksError("inspecting:user:external-data", place=model, location=location[:200], text=text)
        entry = f"{folder}/{location}" if folder else location
        if entry not in archive.entries:
            text = "is not in the archive"
            raise FuseworksError("inspecting:user:external-data", place=model, location=location[:200], text=text)
        wanted.add(entry)
    others = set(names) - wanted - {model}
    unknown = sorted(n for n in others if not n.lower().endswith((".yaml", ".yml", ".md", ".txt", ".safetensors")))
    if unknown:
        text = f"{unknown[0]!r} is not named by the ONNX model"
        raise FuseworksError("inspecting:user:bad-zip-content", place=archive.place, text=text)


def _checked(view: Buffer, size: int, name: str) -> list[str]:
    if size > MAX_MODEL_BYTES:
        raise FuseworksError("inspecting:user:bad-onnx", place=name, text="it is larger than a protobuf may be (2 GiB)")
    try:
        return external_locations(view)
    except Malformed as error:
        raise FuseworksError("inspecting:user:bad-onnx", place=name, text=str(error)) from error
