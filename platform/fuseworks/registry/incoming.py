"""The files of uploads on their way in: one below `STORAGE/incoming` for each, whose size is the upload's offset.

No column counts the bytes: after a crash only the file itself knows how many of them arrived. A lock on the file keeps
a second writer out, in this process or another one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from io import BufferedRandom
from pathlib import Path
from typing import Protocol

from django.conf import settings
from django.http.request import UnreadablePostError

from fuseworks.core.errors import PlatformError
from fuseworks.core.storage import free_bytes, refused_when_full
from fuseworks.registry.models import Upload

BLOCK_BYTES = 1 << 20
KEPT_FREE_BYTES = 1 << 30
SUFFIX = ".part"


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...


def folder() -> Path:
    path = Path(settings.STORAGE) / "incoming"
    path.mkdir(mode=0o750, parents=True, exist_ok=True)
    return path


def path_of(upload: Upload) -> Path:
    return folder() / f"{upload.pk.hex}{SUFFIX}"


def create(upload: Upload) -> None:
    """Raises PlatformError (`registry:ours:disk-full`) when the announced bytes would leave no room."""
    if free_bytes(folder()) < upload.length_bytes + KEPT_FREE_BYTES:
        raise PlatformError("registry:ours:disk-full")
    with refused_when_full("registry:ours:disk-full"):
        path_of(upload).touch(mode=0o600)


def remove(upload: Upload) -> None:
    path_of(upload).unlink(missing_ok=True)


def offset_of(upload: Upload) -> int:
    """Bytes that have arrived."""
    if upload.version_id is not None:
        return upload.length_bytes
    try:
        return path_of(upload).stat().st_size
    except FileNotFoundError as error:
        raise PlatformError("registry:usage:upload-over", why="what had arrived of it is gone") from error


@contextlib.contextmanager
def locked(upload: Upload) -> Iterator[BufferedRandom]:
    """The file, for one writer at a time. Raises PlatformError: `registry:usage:busy`, `registry:usage:upload-over`."""
    try:
        file = path_of(upload).open("r+b")
    except FileNotFoundError as error:
        raise PlatformError("registry:usage:upload-over", why="it was completed, cancelled or has expired") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PlatformError("registry:usage:busy") from error
        yield file


def receive(file: BufferedRandom, stream: Readable, length_bytes: int, *hashes: Hash) -> int:
    """Appends at most `length_bytes` of the stream; fewer when its sender goes away. Safe on the disk on return."""
    received_bytes = 0
    file.seek(0, os.SEEK_END)
    with refused_when_full("registry:ours:disk-full"):
        while received_bytes < length_bytes:
            try:
                block = stream.read(min(BLOCK_BYTES, length_bytes - received_bytes))
            except UnreadablePostError:  # the sender is gone: what came is kept
                break
            if not block:
                break
            file.write(block)
            received_bytes += len(block)
            for hash_ in hashes:
                hash_.update(block)
        file.flush()
        os.fsync(file.fileno())
    return received_bytes


def sha256_of(file: BufferedRandom) -> str:
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()
