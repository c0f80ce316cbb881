"""Which files hold profiler traces, by name, first bytes and (zip) listing: `optimizer.uploads.traces` with the site's
own ids. Nothing is unpacked or parsed: a trace is read in a worker's sandbox alone.
"""

from __future__ import annotations

from typing import BinaryIO

from django.conf import settings

from fuseworks.core.errors import PlatformError
from fuseworks.registry import errors as _errors  # noqa: F401  its ids must be in the catalogue
from fuseworks.registry.models import Format
from optimizer.uploads import traces
from optimizer.uploads.formats import MIB
from optimizer.uploads.refusals import Refused


def check_announced(filename: str, size_bytes: int) -> None:
    """What can be refused before a byte is sent. Raises PlatformError."""
    try:
        limit_bytes = min(traces.limit_bytes(filename), settings.MAX_UPLOAD_BYTES)
    except Refused as refused:
        raise _told(refused, filename) from refused
    if size_bytes <= 0:
        raise PlatformError("registry:user:empty-trace", place=filename)
    if size_bytes > limit_bytes:
        size_mib, limit_mib = -(-size_bytes // MIB), limit_bytes // MIB
        raise PlatformError("registry:usage:large-trace", place=filename, size_mib=size_mib, limit_mib=limit_mib)


def examine(file: BinaryIO, filename: str) -> Format:
    """Leaves its position anywhere. Raises PlatformError for what holds no trace."""
    try:
        traces.check(file, filename)
    except Refused as refused:
        raise _told(refused, filename) from refused
    return Format.TRACE


def _told(refused: Refused, filename: str) -> PlatformError:
    if refused.reason == "bad-zip":
        return PlatformError("registry:user:trace-zip", place=filename, **refused.context)
    return PlatformError("registry:user:no-trace", place=filename, name=filename, **refused.context)
