"""Which format a file has: by its name alone before a byte is sent, by its first bytes and its listing afterwards."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import BinaryIO, NamedTuple, cast

from optimizer.uploads import foreign
from optimizer.uploads.contents import is_program
from optimizer.uploads.foreign import Foreign
from optimizer.uploads.formats import ACCEPTED, Format
from optimizer.uploads.refusals import Refused
from optimizer.uploads.zip_listing import Listing

HEAD_BYTES = 4096
ZIP_STARTS = (b"PK\x03\x04", b"PK\x05\x06")


class Identified(NamedTuple):
    """`head`: its first bytes. `listing` of archives only. That it holds a model, and nothing else, is not checked."""

    format: Format
    head: bytes
    listing: Listing | None = None


def format_by_name(filename: str) -> Format:
    """What a file of this name should be. Raises Refused: `foreign`, `unknown`."""
    suffix = _suffix(filename)
    if suffix in ACCEPTED:
        return cast(Format, suffix[1:])
    _refuse(foreign.SUFFIXES.get(suffix))
    raise Refused("unknown", text=f"its suffix is {suffix or 'missing'}")


def identify(file: BinaryIO, filename: str) -> Identified:
    """What the file is; leaves its position anywhere. Raises Refused: also when its suffix says something else."""
    suffix = _suffix(filename)
    file.seek(0)
    head = file.read(HEAD_BYTES)
    if head.startswith(ZIP_STARTS):
        listing = Listing(file)
        return Identified(_archive(listing, suffix), head, listing)
    _refuse(foreign.by_first_bytes(head))
    _refuse(foreign.SUFFIXES.get(suffix))
    if suffix in (".py", ".onnx"):
        return Identified(cast(Format, suffix[1:]), head)
    if head.lstrip()[:1] in (b"{", b"["):
        _refuse(foreign.JSON)
    if suffix in (".pt2", ".zip"):
        raise Refused("wrong-suffix", suffix=suffix, what="no zip archive")
    raise Refused("unknown", text=f"its suffix is {suffix or 'missing'} and it starts with {head[:8]!r}")


def _archive(listing: Listing, suffix: str) -> Format:
    if is_program(listing):
        _expect(".pt2", suffix, "a program saved by torch.export")
        return "pt2"
    _refuse(foreign.by_listing(listing, suffix))
    _expect(".zip", suffix, "a zip archive")
    return "zip"


def _expect(wanted: str, suffix: str, what: str) -> None:
    """Every child goes by the format, not by the name; a wrong name still means that somebody is mistaken."""
    if suffix != wanted:
        raise Refused("wrong-suffix", suffix=suffix or "without suffix", what=what)


def _refuse(found: Foreign | None) -> None:
    if found is not None:
        raise found.refused()


def _suffix(filename: str) -> str:
    return PurePosixPath(filename).suffix.lower()
