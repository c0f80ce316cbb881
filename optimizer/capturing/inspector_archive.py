"""Entries of a zip archive whose listing was accepted, read only up to what each of them declared."""

from __future__ import annotations

import zipfile
from typing import NoReturn

from optimizer.errors import FuseworksError
from optimizer.uploads.zip_listing import Listing


class Archive:
    """Raises FuseworksError (`inspecting:user:bad-zip`) for an entry that is not what the listing says."""

    def __init__(self, opened: zipfile.ZipFile, listing: Listing, place: str) -> None:
        self._zip, self.listing, self.place = opened, listing, place
        self.entries, self.names = listing.entries, listing.names

    def refuse(self, text: str) -> NoReturn:
        raise FuseworksError("inspecting:user:bad-zip", place=self.place, text=text)

    def size(self, name: str) -> int:
        return self.entries[name].file_size

    def read(self, name: str, limit_bytes: int) -> bytes:
        """A whole entry of at most `limit_bytes`; what unpacks to more than it declared is refused."""
        info = self.entries[name]
        if info.file_size > limit_bytes:
            self.refuse(f"{name!r} has {info.file_size} bytes, more than {limit_bytes}")
        return self.start_of(name, info.file_size)

    def start_of(self, name: str, size: int) -> bytes:
        """The first `size` bytes of an entry."""
        with self._zip.open(self.entries[name]) as stream:
            data = stream.read(size)
            if len(data) < min(size, self.entries[name].file_size):
                self.refuse(f"{name!r} is shorter than declared")
            return data
