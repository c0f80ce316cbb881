"""A zip archive's listing under limits: number, names, kinds, sizes and ratios of its entries. Unpacks nothing."""

from __future__ import annotations

import os
import re
import stat
import struct
import zipfile
from typing import BinaryIO, NoReturn

from optimizer.uploads.refusals import Refused

MAX_ENTRIES = 50_000
MAX_LISTING_BYTES = 8 << 20
MAX_NAME_BYTES = 400
MAX_DEPTH = 12
MAX_UNPACKED_BYTES = 16 << 30
MAX_RATIO = 200
RATIO_FREE_BYTES = 1 << 20
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\:*?\"<>|]")
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".whl", ".egg", ".jar")


class Listing:
    """`entries` of files by name; `names`; `inner` those without their top folder; `last` their last parts.
    `archives`: suffixes of entries that are refused, whatever is in them.

    Raises Refused (`bad-zip`) for what no tool writes.
    """

    def __init__(self, file: BinaryIO, *, archives: tuple[str, ...] = ARCHIVES) -> None:
        size_bytes = file.seek(0, os.SEEK_END)
        try:
            with zipfile.ZipFile(_Bounded(file)) as archive:
                infos = archive.infolist()
        except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError, struct.error) as error:
            raise Refused("bad-zip", text=str(error)) from error
        if not infos:
            _refuse("it is empty")
        if len(infos) > MAX_ENTRIES:
            _refuse(f"it has {len(infos)} entries, more than {MAX_ENTRIES}")
        for info in infos:
            _check(info, archives)
        self.entries = {info.filename: info for info in infos if not info.is_dir()}
        self.names = list(self.entries)
        self.inner = {name.partition("/")[2] for name in self.names}
        self.last = {name.rpartition("/")[2] for name in self.names}
        self._check_names(infos)
        _check_places(infos, size_bytes)

    def _check_names(self, infos: list[zipfile.ZipInfo]) -> None:
        lowered = [info.filename.rstrip("/").lower() for info in infos]
        if len(set(lowered)) != len(lowered):
            _refuse("two entries have the same name")
        for info in infos:
            parts = info.filename.rstrip("/").split("/")
            if any("/".join(parts[:count]) in self.entries for count in range(1, len(parts))):
                _refuse(f"{info.filename!r} lies below a file")


def _refuse(text: str) -> NoReturn:
    raise Refused("bad-zip", text=text)


def _check(info: zipfile.ZipInfo, archives: tuple[str, ...]) -> None:
    name = info.filename
    parts = name.rstrip("/").split("/")
    if name != info.orig_filename or FORBIDDEN.search(name) or not name.isprintable():
        _refuse(f"the name {name[:80]!r} has characters that no file name should have")
    if name.startswith("/") or any(part in ("", ".", "..") for part in parts):
        _refuse(f"the name {name[:80]!r} leads out of the archive")
    if len(name.encode(errors="replace")) > MAX_NAME_BYTES or len(parts) > MAX_DEPTH:
        _refuse(f"the name {name[:80]!r} is too long or too deep")
    kind = stat.S_IFMT(info.external_attr >> 16)
    if info.create_system == 3 and kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        _refuse(f"{name!r} is a link or a device")
    if info.flag_bits & 0x1 or info.flag_bits & 0x40:
        _refuse(f"{name!r} is encrypted")
    if info.compress_type not in METHODS:
        _refuse(f"{name!r} is compressed by an unusual method ({info.compress_type})")
    if info.compress_type == zipfile.ZIP_STORED and info.file_size != info.compress_size:
        _refuse(f"{name!r} has two sizes")
    if info.file_size > RATIO_FREE_BYTES and info.file_size > MAX_RATIO * max(1, info.compress_size):
        _refuse(f"{name!r} unpacks to {info.file_size} bytes from {info.compress_size}")
    if name.lower().endswith(archives):
        _refuse(f"{name!r} is an archive in the archive")


def _check_places(infos: list[zipfile.ZipInfo], size_bytes: int) -> None:
    """Entries that share their bytes are how a bomb stays small."""
    if sum(info.file_size for info in infos) > MAX_UNPACKED_BYTES:
        _refuse(f"it unpacks to more than {MAX_UNPACKED_BYTES >> 30} GiB")
    end = 0
    for info in sorted(infos, key=lambda info: info.header_offset):
        if info.header_offset < end:
            _refuse(f"{info.filename!r} overlaps another entry")
        end = info.header_offset + 30 + info.compress_size
    if end > size_bytes:
        _refuse("its listing claims more bytes than it has")


class _Bounded:
    """A file of which nobody reads much at once: `zipfile` reads a listing whole, however long it says that it is."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(MAX_LISTING_BYTES + 1 if size < 0 else min(size, MAX_LISTING_BYTES + 1))
        if len(data) > MAX_LISTING_BYTES:
            raise zipfile.BadZipFile(f"its listing has more than {MAX_LISTING_BYTES >> 20} MiB")
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence == 0 and not 0 <= offset < 1 << 62:
            raise zipfile.BadZipFile("its listing is not where it says")
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True
