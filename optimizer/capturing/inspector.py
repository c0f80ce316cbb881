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

from optimizer.capturing import inspector_errors as _errors  # noqa: F401  its ids must be in the catalogue
from optimizer.capturing.inspector_archive import Archive
from optimizer.capturing.inspector_onnx import inspect_onnx_file
from optimizer.capturing.inspector_pt2 import inspect_pt2
from optimizer.capturing.inspector_source import check_source, inspect_zip
from optimizer.errors import FuseworksError
from optimizer.uploads import foreign
from optimizer.uploads.formats import LIMIT_BYTES, MIB, Format
from optimizer.uploads.identify import identify
from optimizer.uploads.refusals import Reason, Refused
from optimizer.uploads.zip_listing import Listing

IDS: dict[Reason, str] = {
    "foreign": "inspecting:user:foreign",
    "unknown": "inspecting:user:unknown",
    "wrong-suffix": "inspecting:user:wrong-suffix",
    "bad-zip": "inspecting:user:bad-zip",
}


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
        try:
            found = identify(file, path.name)
        except Refused as refused:
            raise _told(refused, path) from refused
        _limited(path, size_bytes, found.format)
        operators = _inspected(path, file, found.format, found.listing)
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    files = tuple(found.listing.names) if found.listing is not None else ()
    return UploadInfo(found.format, digest, size_bytes, operators, files)


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
        names = set(os.listdir(path)) if os.access(path, os.R_OK) else set()
        raise _told(foreign.folder(names).refused(), path)
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


def _inspected(path: Path, file: BufferedReader, format: Format, listing: Listing | None) -> tuple[str, ...]:
    """Names of the operators of a `.pt2`."""
    if listing is not None:
        try:
            with zipfile.ZipFile(file) as opened:
                archive = Archive(opened, listing, path.name)
                if format == "pt2":
                    return inspect_pt2(archive)
                inspect_zip(archive)
        except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
            raise FuseworksError("inspecting:user:bad-zip", place=path.name, text=str(error)) from error
    elif format == "onnx":
        inspect_onnx_file(file, path.name)
    else:
        file.seek(0)
        check_source(file.read(), path.name)
    return ()


def _told(refused: Refused, path: Path) -> FuseworksError:
    return FuseworksError(IDS[refused.reason], place=path.name, **refused.context)
