"""A zip archive's listing under limits: number, names, kinds, sizes and ratios of its entries. Unpacks nothing."""

from __future__ import annotations

import re
import stat
import struct
import zipfile
from typing import BinaryIO, NoReturn

from fuseworks.core.errors import PlatformError

MAX_ENTRIES = 50_000
MAX_LISTING_BYTES = 8 << 20
MAX_NAME_BYTES = 400
MAX_DEPTH = 12
MAX_UNPACKED_BYTES = 16 << 30
MAX_RATIO = 200
RATIO_FREE_BYTES = 1 << 20
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\:*?\"<>|]")
NOISE = re.compile(r"(^|/)(__MACOSX|\.DS_Store|__pycache__)(/|$)")
PT2_MODEL = re.compile(r"models/[A-Za-z0-9_-]{1,100}\.json")


class Listing:
    """`names` of files; `inner` those without their top folder too; `last` their last parts. Raises PlatformError
    (`registry:user:bad-zip`) for what no tool writes."""

    def __init__(self, file: BinaryIO, filename: str) -> None:
        self.filename = filename
        try:
            with zipfile.ZipFile(_Bounded(file)) as archive:
                infos = archive.infolist()
        except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError, struct.error) as error:
            self.refuse(str(error))
        if not infos:
            self.refuse("it is empty")
        if len(infos) > MAX_ENTRIES:
            self.refuse(f"it has {len(infos)} entries, more than {MAX_ENTRIES}")
        for info in infos:
            self._check(info)
        if sum(info.file_size for info in infos) > MAX_UNPACKED_BYTES:
            self.refuse(f"it unpacks to more than {MAX_UNPACKED_BYTES >> 30} GiB")
        self._check_overlaps(infos)
        self.names = [info.filename for info in infos if not info.is_dir()]
        if len({name.lower() for name in self.names}) != len(self.names):
            self.refuse("two entries have the same name")
        self.inner = {name.partition("/")[2] for name in self.names} | set(self.names)
        self.last = {name.rpartition("/")[2] for name in self.names}

    def refuse(self, text: str) -> NoReturn:
        raise PlatformError("registry:user:bad-zip", place=self.filename, text=text)

    def is_pt2(self) -> bool:
        """By its own mark, or by what only such an archive holds."""
        return "archive_format" in self.inner or any(PT2_MODEL.fullmatch(name) for name in self.inner)

    def check_model(self) -> None:
        """A `model.py` at the top or in the one folder, or one ONNX model."""
        names = [name for name in self.names if not NOISE.search(name)]
        sources = [name for name in names if name.rpartition("/")[2] == "model.py" and name.count("/") <= 1]
        models = [name for name in names if name.lower().endswith(".onnx")]
        if len(sources) == 1 or (not sources and len(models) == 1):
            return
        text = (
            f"it holds {len(sources) or len(models)} models"
            if sources or models
            else f"neither a model.py nor a model.onnx is among {', '.join(names[:5])}"
        )
        raise PlatformError("registry:user:bad-zip-content", place=self.filename, text=text)

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
        if info.file_size > RATIO_FREE_BYTES and info.file_size > MAX_RATIO * max(1, info.compress_size):
            self.refuse(f"{name!r} unpacks to {info.file_size} bytes from {info.compress_size}")

    def _check_overlaps(self, infos: list[zipfile.ZipInfo]) -> None:
        """Entries that share their bytes are how a bomb stays small."""
        end = 0
        for info in sorted(infos, key=lambda info: info.header_offset):
            if info.header_offset < end:
                self.refuse(f"{info.filename!r} overlaps another entry")
            end = info.header_offset + 30 + info.compress_size


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
