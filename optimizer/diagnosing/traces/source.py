"""The text of a trace out of a plain, gzipped or zipped file, a piece at a time and never more than the limit."""

from __future__ import annotations

import codecs
import gzip
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, cast

from optimizer.diagnosing import errors as _errors  # noqa: F401  its ids must be in the catalogue
from optimizer.errors import FuseworksError

MIB = 1 << 20
MAX_TRACE_BYTES = 1 << 30
PIECE_BYTES = 4 * MIB
GZIP_START = b"\x1f\x8b"


def pieces(path: Path, member: str | None = None, *, limit_bytes: int = MAX_TRACE_BYTES) -> Iterator[str]:
    """`member`: the entry of a zip. Raises FuseworksError (`diagnosing:user:...`)."""
    with ExitStack() as stack:
        try:
            yield from _decoded(_opened(path, member, stack), limit_bytes)
        except (zipfile.BadZipFile, KeyError, NotImplementedError) as error:
            raise FuseworksError("diagnosing:user:bad-archive", place=member or path.name, text=str(error)) from error
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            text = f"it does not unpack to its end ({error})"
            raise FuseworksError("diagnosing:user:not-json", place=member or path.name, text=text) from error


def _opened(path: Path, member: str | None, stack: ExitStack) -> BinaryIO:
    if member is None:
        file = cast(BinaryIO, stack.enter_context(path.open("rb")))
        start = file.read(2)
        file.seek(0)
    else:
        archive = stack.enter_context(zipfile.ZipFile(path))
        with archive.open(member) as head:
            start = head.read(2)
        file = cast(BinaryIO, stack.enter_context(archive.open(member)))
    if start == GZIP_START:
        return cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=file)))
    return file


def _decoded(file: BinaryIO, limit_bytes: int) -> Iterator[str]:
    # what is no UTF-8 stands in names only (old versions of Kineto wrote such), and a name is not worth a refusal
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    total = 0
    while data := file.read(PIECE_BYTES):
        total += len(data)
        if total > limit_bytes:
            raise FuseworksError("diagnosing:user:too-large", limit_mib=limit_bytes // MIB)
        yield decoder.decode(data)
    yield decoder.decode(b"", final=True)
