"""Looks at an upload before anything loads it: an allow-list over headers, listings and JSON, without torch.

It unpickles nothing, unpacks nothing and runs nothing. What it accepts is still loaded in a sandboxed child only: it
keeps out what would run code on loading, and tells a stranger's file what it is and how to export it.
"""

from __future__ import annotations

import hashlib
import os
import stat
import zipfile
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Literal

from optimizer.capturing import inspector_errors as _errors  # noqa: F401  its ids must be in the catalogue
from optimizer.capturing.inspector_archive import Archive
from optimizer.capturing.inspector_foreign import refuse_folder, refuse_foreign, refuse_foreign_zip
from optimizer.capturing.inspector_onnx import inspect_onnx_file
from optimizer.capturing.inspector_pt2 import inspect_pt2, looks_like_pt2
from optimizer.capturing.inspector_source import check_source, inspect_zip
from optimizer.errors import FuseworksError

MIB = 1 << 20
LIMIT_BYTES = {"pt2": 8 << 30, "zip": 8 << 30, "onnx": 2 << 30, "py": 2 * MIB}
HEAD_BYTES = 4096

Format = Literal["pt2", "py", "zip", "onnx"]


@dataclass(frozen=True)
class UploadInfo:
    """What the upload is. `operators` is known for `.pt2` only, `files` for archives."""

    format: Format
    sha256: str
    size_bytes: int
    operators: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def inspect_upload(path: Path) -> UploadInfo:
    """Raises FuseworksError (`inspecting:user:...`) that names what the file is and how to export it instead."""
    with _opened(path) as file:
        size_bytes = os.fstat(file.fileno()).st_size
        if size_bytes == 0:
            raise FuseworksError("inspecting:user:empty", place=path.name)
        head = file.read(HEAD_BYTES)
        if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
            format, operators, files = _zip(path, file)
        else:
            format, operators, files = _single(path, file, head), (), ()
        _limited(path, size_bytes, format)
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return UploadInfo(format, digest, size_bytes, tuple(operators), tuple(files))


def _opened(path: Path) -> BufferedReader:
    try:
        # a named pipe would block for ever
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise FuseworksError("inspecting:user:missing", path=str(path)) from None
    except OSError as error:
        raise FuseworksError("inspecting:user:unreadable", place=path.name, text=error.strerror) from error
    mode = os.fstat(fd).st_mode
    if stat.S_ISDIR(mode):
        os.close(fd)
        refuse_folder(path)
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise FuseworksError("inspecting:user:unreadable", place=path.name, text="it is no regular file")
    return os.fdopen(fd, "rb")


def _limited(path: Path, size_bytes: int, format: Format) -> None:
    limit = LIMIT_BYTES[format]
    if size_bytes > limit:
        what = f"a .{format}"
        raise FuseworksError(
            "inspecting:user:too-large",
            place=path.name,
            size_mib=size_bytes // MIB,
            limit_mib=limit // MIB,
            what=what,
        )


def _zip(path: Path, file: BufferedReader) -> tuple[Format, tuple[str, ...], tuple[str, ...]]:
    try:
        with zipfile.ZipFile(file) as opened:
            archive = Archive(opened, os.fstat(file.fileno()).st_size, path.name)
            if looks_like_pt2(archive):
                _suffixed(path, ".pt2", "a program saved by torch.export")
                return "pt2", inspect_pt2(archive), tuple(archive.names)
            refuse_foreign_zip(archive, path)
            _suffixed(path, ".zip", "a zip archive")
            inspect_zip(archive)
            return "zip", (), tuple(archive.names)
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise FuseworksError("inspecting:user:bad-zip", place=path.name, text=str(error)) from error


def _single(path: Path, file: BufferedReader, head: bytes) -> Format:
    refuse_foreign(path, head)
    suffix = path.suffix.lower()
    if suffix == ".onnx":
        inspect_onnx_file(file, path.name)
        return "onnx"
    if suffix == ".py":
        _limited(path, os.fstat(file.fileno()).st_size, "py")
        check_source(head + file.read(), path.name)
        return "py"
    if suffix in (".pt2", ".zip"):
        raise FuseworksError("inspecting:user:wrong-suffix", place=path.name, suffix=suffix, what="no zip archive")
    text = f"its suffix is {suffix or 'missing'} and it starts with {head[:8]!r}"
    raise FuseworksError("inspecting:user:unknown", place=path.name, text=text)


def _suffixed(path: Path, suffix: str, what: str) -> None:
    """Every child goes by the format, not by the name; a wrong name still means that somebody is mistaken."""
    if path.suffix.lower() != suffix:
        raise FuseworksError(
            "inspecting:user:wrong-suffix", place=path.name, suffix=path.suffix.lower() or "without suffix", what=what
        )
