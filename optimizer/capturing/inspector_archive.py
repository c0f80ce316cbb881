"""A zip archive's listing under limits: names, kinds, sizes, ratios. Entries are read only up to what was declared."""

from __future__ import annotations

import re
import stat
import zipfile

from optimizer.errors import FuseworksError

MAX_ENTRIES = 50_000
MAX_NAME_BYTES = 400
MAX_DEPTH = 12
MAX_TOTAL_BYTES = 16 << 30
MAX_RATIO = 200
RATIO_FREE_BYTES = 1 << 20
METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\:*?\"<>|]")
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".whl", ".egg", ".jar")


class Archive:
    """`names` are those of files. Raises FuseworksError (`inspecting:user:bad-zip`) for what no tool writes."""

    def __init__(self, opened: zipfile.ZipFile, size_bytes: int, place: str) -> None:
        self._zip, self.place = opened, place
        infos = opened.infolist()
        if not infos:
            self.refuse("it is empty")
        if len(infos) > MAX_ENTRIES:
            self.refuse(f"it has {len(infos)} entries, more than {MAX_ENTRIES}")
        for info in infos:
            self._check(info)
        lowered = [info.filename.rstrip("/").lower() for info in infos]
        if len(set(lowered)) != len(lowered):
            self.refuse("two entries have the same name")
        files = {info.filename for info in infos if not info.is_dir()}
        for info in infos:
            parts = info.filename.rstrip("/").split("/")
            if any("/".join(parts[:count]) in files for count in range(1, len(parts))):
                self.refuse(f"{info.filename!r} lies below a file")
        self._check_overlap(infos, size_bytes)
        self.entries = {info.filename: info for info in infos if not info.is_dir()}
        self.names = list(self.entries)

    def refuse(self, text: str) -> None:
        raise FuseworksError("inspecting:user:bad-zip", place=self.place, text=text)

    def _check(self, info: zipfile.ZipInfo) -> None:
        name = info.filename
        parts = name.rstrip("/").split("/")
        if name != info.orig_filename or FORBIDDEN.search(name) or not name.isprintable():
            self.refuse(f"the name {name[:80]!r} has characters that no file name should have")
        if name.startswith("/") or any(part in ("", ".", "..") for part in parts):
            self.refuse(f"the name {name[:80]!r} leads out of the archive")
        if len(name.encode(errors="replace")) > MAX_NAME_BYTES or len(parts) > MAX_DEPTH:
            self.refuse(f"the name {name[:80]!r} is too long or too deep")
        kind = stat.S_IFMT(info.external_attr >> 16)
        if info.create_system == 3 and kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            self.refuse(f"{name!r} is a link or a device")
        if info.flag_bits & 0x1 or info.flag_bits & 0x40:
            self.refuse(f"{name!r} is encrypted")
        if info.compress_type not in METHODS:
            self.refuse(f"{name!r} is compressed by an unusual method ({info.compress_type})")
        if info.compress_type == zipfile.ZIP_STORED and info.file_size != info.compress_size:
            self.refuse(f"{name!r} has two sizes")
        if info.file_size > RATIO_FREE_BYTES and info.file_size > MAX_RATIO * max(1, info.compress_size):
            self.refuse(f"{name!r} unpacks to {info.file_size} bytes from {info.compress_size}")
        if name.lower().endswith(ARCHIVES):
            self.refuse(f"{name!r} is an archive in the archive")

    def _check_overlap(self, infos: list[zipfile.ZipInfo], size_bytes: int) -> None:
        """Entries that share their bytes are how a bomb stays small."""
        if sum(info.file_size for info in infos) > MAX_TOTAL_BYTES:
            self.refuse(f"it unpacks to more than {MAX_TOTAL_BYTES >> 30} GiB")
        end = 0
        for info in sorted(infos, key=lambda info: info.header_offset):
            if info.header_offset < end:
                self.refuse(f"{info.filename!r} overlaps another entry")
            end = info.header_offset + 30 + info.compress_size
        if end > size_bytes:
            self.refuse("its listing claims more bytes than it has")

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
