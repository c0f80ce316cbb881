"""Bodies of requests that are files: read in blocks, never parsed.

DRF would parse `request.data`, and Django's `request.body` is bounded by DATA_UPLOAD_MAX_MEMORY_SIZE: both are left
alone, and Django's own request is read instead. Under WSGI that is the connection itself. Under ASGI Django has spooled
the whole body to a temporary file (in TMPDIR) before the view runs (`ASGIHandler.read_body`): memory stays constant
there too, but the disk holds a body twice for a moment, a refusal comes after the body, and nothing is kept of a
request that breaks off. So clients send pieces, and a piece is all that is lost.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from fuseworks.core.errors import PlatformError
from fuseworks.registry.incoming import Readable


def body_of(request: Any) -> Readable:
    """The raw body of a DRF request."""
    raw: Readable = request._request
    return raw


def body_length(request: Any) -> int:
    """0 without a body. Raises PlatformError (`registry:usage:length-required`) for one that comes in chunks: servers
    hand such a body on as none at all (WSGI) or as whatever came (ASGI)."""
    length = request.META.get("CONTENT_LENGTH") or "0"
    if "Transfer-Encoding" in request.headers or not length.isdecimal():
        raise PlatformError("registry:usage:length-required")
    return int(length)


def offset_header(request: Any) -> int:
    value = request.headers.get("Upload-Offset", "")
    if not value.isdecimal():
        raise PlatformError("core:usage:invalid", place="Upload-Offset", text="the header Upload-Offset is a number")
    return int(value)


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
