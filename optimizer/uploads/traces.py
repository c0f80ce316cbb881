"""Whether a file may hold traces of torch.profiler, by suffix, first bytes and zip listing; nothing is unpacked."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from optimizer.uploads import foreign
from optimizer.uploads.contents import NOISE, contents, is_program
from optimizer.uploads.foreign import by_listing
from optimizer.uploads.identify import HEAD_BYTES, ZIP_STARTS
from optimizer.uploads.refusals import Refused
from optimizer.uploads.zip_listing import ARCHIVES, Listing

SUFFIXES = (".json", ".json.gz")
# of the file as it lies there; a trace itself may have 1 GiB when it is unpacked (`diagnosing.traces.source`)
LIMIT_BYTES = {".json": 1 << 30, ".json.gz": 1 << 30, ".zip": 8 << 30}
ACCEPTED = tuple(LIMIT_BYTES)
MODEL_SUFFIXES = (".py", ".pt2", ".onnx")
GZIP_START = b"\x1f\x8b"
# a zip of many ranks holds gzipped ones; they are unpacked as a stream, under a limit of their own
INNER_ARCHIVES = tuple(suffix for suffix in ARCHIVES if suffix != ".gz")


def trace_members(path: Path) -> list[str | None] | None:
    """What to read as traces: the entries of a zip, or [None] for the file itself. None: a file of another kind.

    Raises Refused (`bad-zip`) for a zip of traces that no tool writes, and OSError.
    """
    with open(path, "rb") as file:
        head = file.read(HEAD_BYTES)
        if head.startswith(ZIP_STARTS):
            if path.suffix.lower() != ".zip":
                return None
            listing = Listing(file, archives=INNER_ARCHIVES)
            return list(_traces(listing)) or None
    if head.startswith(GZIP_START):
        return [None]
    is_json = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")
    return [None] if is_json or path.name.lower().endswith(SUFFIXES) else None


def limit_bytes(filename: str) -> int:
    """Of a file of this name. Raises Refused (`foreign`) for one that is no trace by its suffix."""
    for suffix, limit in LIMIT_BYTES.items():
        if filename.lower().endswith(suffix):
            return limit
    raise Refused("foreign", what=_by_suffix(filename))


def check(file: BinaryIO, filename: str) -> None:
    """Whether an upload may hold traces: what `trace_members` would read. Leaves its position anywhere.

    Raises Refused: `foreign` with what it is, `bad-zip` for an archive that no tool writes.
    """
    limit_bytes(filename)
    file.seek(0)
    head = file.read(HEAD_BYTES)
    if head.startswith(ZIP_STARTS):
        if not _traces(Listing(file, archives=INNER_ARCHIVES)):
            raise Refused("foreign", what="it is a zip archive without a .json or .json.gz of a profiler")
        return
    name = filename.lower()
    if name.endswith(".zip"):
        raise Refused("foreign", what="it is no zip archive, whatever its name says")
    if head.startswith(GZIP_START) != name.endswith(".gz"):
        text = "it is a gzip file: name it .json.gz" if head.startswith(GZIP_START) else "it is no gzip file"
        raise Refused("foreign", what=text)
    if name.endswith(".json") and head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] not in (b"{", b"["):
        known = foreign.by_first_bytes(head)
        raise Refused("foreign", what=f"it is {known.what if known is not None else 'no JSON document'}")


def _by_suffix(filename: str) -> str:
    suffix = Path(filename).suffix.lower()
    if suffix in MODEL_SUFFIXES:
        return "it is a model, and those go to the page of models"
    known = foreign.SUFFIXES.get(suffix)
    return f"it is {known.what}" if known is not None else f"its suffix is {suffix or 'missing'}"


def _traces(listing: Listing) -> list[str]:
    held = contents(listing)
    if is_program(listing) or held.sources or held.models or by_listing(listing, ".zip") is not None:
        return []
    return [name for name in listing.names if name.lower().endswith(SUFFIXES) and not NOISE.search(name)]
