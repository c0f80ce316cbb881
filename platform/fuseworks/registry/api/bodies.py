"""Bodies of requests that are files: read in blocks, never parsed.

DRF would parse `request.data`, and Django's `request.body` is bounded by DATA_UPLOAD_MAX_MEMORY_SIZE: both are left
alone, and Django's own request is read instead. That is the connection itself, under WSGI and (`core.streaming`) under
ASGI: nobody is asked for his body before he may send it, and of one that breaks off is kept what came.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from fuseworks.core.errors import PlatformError
from fuseworks.core.numbers import whole_number
from fuseworks.registry.incoming import Readable


def body_of(request: Any) -> Readable:
    """The raw body of a DRF request."""
    raw: Readable = request._request
    return raw


def body_length(request: Any) -> int:
    """0 without a body. Raises PlatformError (`registry:usage:length-required`) for one that comes in chunks: servers
    hand such a body on as none at all (WSGI) or as whatever came (ASGI)."""
    length = whole_number(request.META.get("CONTENT_LENGTH") or "0")
    if "Transfer-Encoding" in request.headers or length is None:
        raise PlatformError("registry:usage:length-required")
    return length


def offset_header(request: Any) -> int:
    offset = whole_number(request.headers.get("Upload-Offset", ""))
    if offset is None:
        raise PlatformError("core:usage:invalid", place="Upload-Offset", text="the header Upload-Offset is a number")
    return offset


def checksum_header(request: Any) -> bytes | None:
    """The SHA-256 of tus' header `Upload-Checksum: sha256 BASE64`, when there is one."""
    value = request.headers.get("Upload-Checksum")
    if value is None:
        return None
    algorithm, _, digest = value.partition(" ")
    try:
        decoded = base64.b64decode(digest, validate=True)
    except binascii.Error:
        decoded = b""
    if algorithm.lower() != "sha256" or len(decoded) != 32:
        raise PlatformError(
            "core:usage:invalid", place="Upload-Checksum", text="the header reads Upload-Checksum: sha256 BASE64"
        )
    return decoded
