"""Several traces of one job as one upload: a zip that stores them, as the upload page's script makes it, too."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

NAME = "traces.zip"
BLOCK_BYTES = 1 << 20


@contextmanager
def one_file(files: Sequence[Any]) -> Iterator[tuple[str, BinaryIO, int]]:
    """Its name, itself and its size: the one that there is, or all of them zipped on the disk."""
    if len(files) == 1:
        yield files[0].name, files[0], files[0].size
        return
    with tempfile.TemporaryFile() as packed:
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
            for number, file in enumerate(files):
                with archive.open(_entry(files, number), "w", force_zip64=True) as entry:
                    shutil.copyfileobj(file, entry, BLOCK_BYTES)
        size_bytes = packed.tell()
        packed.seek(0)
        yield NAME, packed, size_bytes


def _entry(files: Sequence[Any], number: int) -> str:
    """Its own name; two of one name (out of two folders) are told apart by a number."""
    name = str(files[number].name).replace("\\", "/").rpartition("/")[2]
    same = [file for file in files[:number] if file.name.lower() == files[number].name.lower()]
    return f"{len(same)}-{name}" if same else name
