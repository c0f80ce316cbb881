"""Writes archives for the inspector's tests: real ones, and real ones tampered with."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from optimizer.capturing.inspector import inspect_upload
from optimizer.errors import FuseworksError


def refusal(path: Path) -> FuseworksError:
    """The inspector's refusal of a file; there must be one, with a remedy that is filled in."""
    with pytest.raises(FuseworksError) as caught:
        inspect_upload(path)
    assert "<" not in caught.value.message + caught.value.remedy
    return caught.value


def write_zip(path: Path, entries: Mapping[str, bytes | str], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return path


def rewritten(
    source: Path, target: Path, *, replace: Mapping[str, bytes] | None = None, drop: Sequence[str] = ()
) -> Path:
    """A copy of an archive with entries (named without the top folder) replaced, added or dropped."""
    with zipfile.ZipFile(source) as archive:
        root = archive.namelist()[0].partition("/")[0]
        entries = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    entries |= dict(replace or {})
    return write_zip(target, {f"{root}/{name}": data for name, data in entries.items() if name not in drop})


def entry(path: Path, inner: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return archive.read(f"{archive.namelist()[0].partition('/')[0]}/{inner}")


def model_json(path: Path) -> Any:
    return json.loads(entry(path, "models/model.json"))


def with_model(source: Path, target: Path, document: Any) -> Path:
    return rewritten(source, target, replace={"models/model.json": json.dumps(document).encode()})


def safetensors(tensors: Mapping[str, tuple[str, list[int], int]], header_extra: bytes = b"") -> bytes:
    """`{name: (dtype, shape, bytes)}`, laid out one after another."""
    header: dict[str, Any] = {}
    at = 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode() + header_extra
    return struct.pack("<Q", len(text)) + text + bytes(at)


def field(number: int, value: int | bytes) -> bytes:
    """One protobuf field."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def onnx_bytes(location: str | None = None) -> bytes:
    """The smallest model: one node, and one initializer that may lie in another file."""
    tensor = field(1, 2) + field(2, 1) + field(8, b"w")
    if location is None:
        tensor += field(9, bytes(8))
    else:
        tensor += field(13, field(1, b"location") + field(2, location.encode())) + field(14, 1)
    graph = field(1, field(4, b"Identity")) + field(2, b"g") + field(5, tensor)
    return field(1, 8) + field(7, graph) + field(8, field(2, 18))


def pickled_zip(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", data)
        archive.writestr("archive/version", "3")
    return buffer.getvalue()
