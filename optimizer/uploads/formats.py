"""The formats that are read, and how large a file of each may be."""

from __future__ import annotations

from typing import Literal, get_args

MIB = 1 << 20

Format = Literal["pt2", "py", "zip", "onnx"]

ACCEPTED = tuple(f".{format_}" for format_ in get_args(Format))
LIMIT_BYTES: dict[str, int] = {"pt2": 8 << 30, "zip": 8 << 30, "onnx": 2 << 30, "py": 2 * MIB}
