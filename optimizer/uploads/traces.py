"""Whether a file may hold traces of torch.profiler, by suffix, first bytes and zip listing; nothing is unpacked."""

from __future__ import annotations

from pathlib import Path

from optimizer.uploads.contents import NOISE, contents, is_program
from optimizer.uploads.foreign import by_listing
from optimizer.uploads.identify import HEAD_BYTES, ZIP_STARTS
from optimizer.uploads.zip_listing import ARCHIVES, Listing

SUFFIXES = (".json", ".json.gz")
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


def _traces(listing: Listing) -> list[str]:
    held = contents(listing)
    if is_program(listing) or held.sources or held.models or by_listing(listing, ".zip") is not None:
        return []
    return [name for name in listing.names if name.lower().endswith(SUFFIXES) and not NOISE.search(name)]
