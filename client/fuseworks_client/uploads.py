"""Uploads: begun, sent in pieces, taken up where the server stopped, or cancelled. A file is never held in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import httpx

from fuseworks_client.server import CHUNK_BYTES, Server, ServerProblem

PIECE_BYTES = 64 << 20
# The server stands elsewhere than thought, or has not yet noticed that the last connection broke.
RESUMED = frozenset({"registry:usage:wrong-offset", "registry:usage:busy", "registry:usage:cut-off"})
GONE = frozenset({404, 410})


def sha256_of(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def begin(api: Server, file: Path, sha256: str, body: dict[str, Any]) -> dict[str, Any]:
    """The upload as the server tells it. `model` is null when the server has none of that name yet."""
    length = file.stat().st_size
    begun: dict[str, Any] = api.post(
        "uploads/", {**body, "filename": file.name, "length_bytes": length, "sha256": sha256}
    )
    return begun


def cancel(api: Server, upload: dict[str, Any]) -> None:
    try:
        api.delete(_address(upload))
    except ServerProblem as error:
        if error.status not in GONE:
            raise


def send(api: Server, upload: dict[str, Any], file: Path, progress: Callable[[int, int], None]) -> str:
    """The id of the version that came of it. Raises ServerProblem, Unreachable, OSError."""
    address, length = _address(upload), int(upload["length_bytes"])
    with file.open("rb") as data:
        offset = 0
        progress(0, length)
        while offset < length:
            offset = _append(api, address, data, offset, length)
            progress(offset, length)
        version = api.get(address)["version"]
        if version is None:  # all was there when a try broke off, and nobody made the version of it
            _append(api, address, data, length, length)
            version = api.get(address)["version"]
    return str(version)


def _append(api: Server, address: str, data: BinaryIO, offset: int, length: int) -> int:
    """Sends a piece; returns how far the server now is, by its own word."""
    end = min(offset + PIECE_BYTES, length)
    tries = 0

    def send() -> httpx.Response:
        nonlocal offset, tries
        tries += 1
        if tries > 1:
            head = api.head(address)
            offset = int(head.headers["Upload-Offset"])
            if offset >= end:
                return head
        headers = {
            "Upload-Offset": str(offset),
            "Content-Length": str(end - offset),
            "Content-Type": "application/offset+octet-stream",
        }
        return api.patch(address, _part(data, offset, end - offset), headers)

    return int(api.answer(send, again_for=RESUMED).headers["Upload-Offset"])


def _part(data: BinaryIO, start: int, count: int) -> Iterator[bytes]:
    data.seek(start)
    while count > 0:
        chunk = data.read(min(CHUNK_BYTES, count))
        if not chunk:
            return
        count -= len(chunk)
        yield chunk


def _address(upload: dict[str, Any]) -> str:
    return f"uploads/{upload['id']}/"
