"""What a file is, by its name, its first bytes and (zip) its listing: `optimizer.uploads` with the site's own ids.

It loads nothing and unpacks nothing: what it accepts is still inspected in a sandbox. Refusals raise PlatformError with
ids `registry:user:...`.
"""

from __future__ import annotations

import unicodedata
from pathlib import PurePosixPath
from typing import BinaryIO

from django.conf import settings
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from fuseworks.core.errors import PlatformError
from fuseworks.registry import errors as _errors  # noqa: F401  its ids must be in the catalogue
from fuseworks.registry.models import Format
from optimizer.uploads import identify
from optimizer.uploads.contents import contents
from optimizer.uploads.formats import LIMIT_BYTES, MIB
from optimizer.uploads.refusals import Reason, Refused
from optimizer.uploads.zip_listing import Listing

IDS: dict[Reason, str] = {
    "foreign": "registry:user:foreign",
    "unknown": "registry:user:unknown-format",
    "wrong-suffix": "registry:user:wrong-suffix",
    "bad-zip": "registry:user:bad-zip",
}
MAX_NAME_CHARACTERS = 200
# The first key of a protobuf ModelProto: its fields 1 to 8 with the wire types that they have.
ONNX_STARTS = frozenset({0x08, 0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42})


def clean_filename(name: str) -> str:
    """The last part of a file's name as a person may see it. Raises PlatformError (`registry:usage:filename`,
    `long-filename`)."""
    last = name.replace("\\", "/").rpartition("/")[2].strip()
    if len(last) > MAX_NAME_CHARACTERS:
        raise PlatformError("registry:usage:long-filename", characters=len(last), limit=MAX_NAME_CHARACTERS)
    if not last or last in (".", "..") or any(unicodedata.category(c)[0] == "C" for c in last):
        raise PlatformError("registry:usage:filename", name=name[:80])
    return last


def format_by_name(filename: str) -> Format:
    """What a file of this name should be; the refusal comes before its bytes do."""
    try:
        return Format(identify.format_by_name(filename))
    except Refused as refused:
        raise _told(refused, filename) from refused


def check_announced(filename: str, size_bytes: int) -> None:
    """What can be refused before a byte is sent. Raises PlatformError."""
    check_size(format_by_name(filename), size_bytes, filename)


def check_size(format_: Format, size_bytes: int, filename: str) -> None:
    if size_bytes <= 0:
        raise PlatformError("registry:user:empty", place=filename)
    limit_bytes = min(LIMIT_BYTES[format_], settings.MAX_UPLOAD_BYTES)
    if size_bytes > limit_bytes:
        raise PlatformError(
            "registry:usage:too-large",
            place=filename,
            size_mib=-(-size_bytes // MIB),
            limit_mib=limit_bytes // MIB,
            format=format_,
        )


def examine(file: BinaryIO, filename: str) -> Format:
    """What the file is. Leaves its position anywhere."""
    try:
        found = identify.identify(file, filename)
        if found.format == "py" and b"\0" in found.head:
            raise _wrong_suffix(filename, "no text")
        if found.format == "onnx" and found.head[0] not in ONNX_STARTS:
            raise _wrong_suffix(filename, "no ONNX model")
    except Refused as refused:
        raise _told(refused, filename) from refused
    if found.format == "zip" and found.listing is not None:
        _check_one_model(found.listing, filename)
    return Format(found.format)


def _check_one_model(listing: Listing, filename: str) -> None:
    """A `model.py` at the top or in the one folder, or one ONNX model."""
    names, sources, models = contents(listing)
    if len(sources) == 1 or (not sources and len(models) == 1):
        return
    text = (
        format_lazy(_("it holds {count} models"), count=len(sources) or len(models))
        if sources or models
        else format_lazy(_("neither a model.py nor a model.onnx is among {names}"), names=", ".join(names[:5]))
    )
    raise PlatformError("registry:user:bad-zip-content", place=filename, text=text)


def _wrong_suffix(filename: str, what: str) -> Refused:
    return Refused("wrong-suffix", suffix=PurePosixPath(filename).suffix.lower(), what=what)


def _told(refused: Refused, filename: str) -> PlatformError:
    return PlatformError(IDS[refused.reason], place=filename, **refused.context)
