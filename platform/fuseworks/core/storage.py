"""Where files lie: Django's default storage, written and read with constant memory. Not for files on their way in
(`registry.incoming`).

Each file has a key of its own, never derived from its content: deleting one can take no other's bytes away.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import shutil
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.files import File
from django.core.files.storage import FileSystemStorage, default_storage
from django.http import FileResponse, HttpResponseBase
from django.utils.http import content_disposition_header

from fuseworks.core.errors import PlatformError

BLOCK_BYTES = 1 << 20
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
# What a browser may do with a file that a stranger wrote, should it ever be shown: nothing.
CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"
log = logging.getLogger(__name__)
Response = TypeVar("Response", bound=HttpResponseBase)


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True)
class Stored:
    key: str
    sha256: str
    size_bytes: int


class SharedFolder(FileSystemStorage):
    """The folder `files` below `settings.STORAGE`, which all web processes share; only they may read it."""

    def __init__(self) -> None:
        super().__init__(file_permissions_mode=0o640, directory_permissions_mode=0o750)

    # Read each time: a cached one would outlive the setting that a test changes.
    @property
    def base_location(self) -> str:  # type: ignore[override]
        return str(settings.STORAGE / "files")

    @property
    def location(self) -> str:  # type: ignore[override]
        return os.path.abspath(self.base_location)

    def _save(self, name: str, content: Any) -> str:
        saved: str = super()._save(name, content)  # type: ignore[misc]
        self._settle(Path(self.path(saved)))
        return saved

    def _settle(self, path: Path) -> None:
        """On the disk before the row that names it is: a power cut after the commit must not take the bytes."""
        for one in (path, path.parent, path.parent.parent):  # the folder of a prefix may be new, too
            descriptor = os.open(one, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def link(self, path: Path, key: str) -> None:
        """Takes in a file of this machine without copying it, where the file system can."""
        target = Path(self.path(key))
        target.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        try:
            try:
                os.link(path, target)
            except FileNotFoundError:
                raise
            except OSError:  # another file system, or one without links
                shutil.copyfile(path, target)
            target.chmod(0o640)
            os.utime(target)  # a link is as old as its file, and what is old and unknown gets cleaned away
            self._settle(target)
        except OSError:
            target.unlink(missing_ok=True)  # half a copy, on a disk that is full
            raise


@contextlib.contextmanager
def refused_when_full(id_: str) -> Iterator[None]:
    """Raises PlatformError(`id_`) where the system says that the disk, or somebody's share of it, is full."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        log.error("the storage is full: %s", error)
        raise PlatformError(id_) from error


def free_bytes(folder: Path) -> int:
    """On the disk of a folder, which need not be there yet."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(there).free


def store(stream: Readable, *, prefix: str) -> Stored:
    """Writes all of `stream` under a new key and hashes it on the way. What a broken stream left is removed."""
    key, content = _new_key(prefix), _Hashed(stream)
    try:
        saved = default_storage.save(key, content)
    except BaseException:
        default_storage.delete(key)
        raise
    return Stored(saved, content.sha256.hexdigest(), content.size_bytes)


def store_file(path: Path, *, prefix: str) -> str:
    """The key of a file that lies on this machine already. `path` stays; nobody may write to it any more."""
    key = _new_key(prefix)
    if isinstance(default_storage, SharedFolder):
        default_storage.link(path, key)
        return key
    with path.open("rb") as file:
        return default_storage.save(key, File(file))


def open_stored(key: str) -> File[bytes]:
    """Raises PlatformError (`core:usage:not-found`) when the file is gone."""
    try:
        return default_storage.open(key, "rb")
    except FileNotFoundError as error:
        log.error("the file %s is not in the storage", key)
        raise PlatformError("core:usage:not-found", what="file") from error


def delete_stored(key: str) -> None:
    """Deleting what is gone already is no error."""
    default_storage.delete(key)


def stored_keys(prefix: str) -> Iterator[tuple[str, datetime]]:
    """Every key below `prefix` with the time when it was written."""
    if not default_storage.exists(prefix):
        return
    for name in default_storage.listdir(prefix)[1]:
        key = f"{prefix}/{name}"
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
            yield key, default_storage.get_modified_time(key)


def serve(key: str, *, filename: str, content_type: str, size: int) -> FileResponse:
    """The file as a download, never shown inside the site. `size` in bytes."""
    response = _Download(open_stored(key), as_attachment=True, filename=filename, content_type=content_type)
    response.headers["Content-Length"] = str(size)
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    return response


def attached(response: Response, filename: str) -> Response:
    """Makes a download of an answer that is no stored file. Names in any language pass (RFC 6266)."""
    response.headers["Content-Disposition"] = content_disposition_header(True, filename) or "attachment"
    return response


class _Download(FileResponse):
    """Django's own, under ASGI, reads the whole file into a list before it sends the first byte of it."""

    block_size = BLOCK_BYTES

    async def __aiter__(self) -> AsyncIterator[bytes]:
        blocks: Any = self.streaming_content
        while block := await sync_to_async(lambda: next(blocks, b""))():
            yield block


class _Hashed(File):  # type: ignore[type-arg]
    """Hashes and counts what passes through."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._stream: Readable = stream
        self.sha256, self.size_bytes = hashlib.sha256(), 0

    def chunks(self, chunk_size: int | None = None) -> Iterator[bytes]:
        while block := self._stream.read(BLOCK_BYTES):
            self.sha256.update(block)
            self.size_bytes += len(block)
            yield block


def _new_key(prefix: str) -> str:
    return f"{prefix}/{uuid.uuid4().hex}"
