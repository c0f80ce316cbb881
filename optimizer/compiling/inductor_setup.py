"""What Inductor and AOTInductor share: the compiler, the cache folder in the scratch, and the seeded toolchain.

The toolchain is a read-only folder of flat files (ISA probes and precompiled headers, `/` written as `__`). It is
linked into the scratch, so that 300 MB of headers cost no memory there; what is new is written beside the links. None
of the keys hold a path, so it does not matter where the toolchain was made.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path

import torch._inductor.config as config
from torch._inductor.runtime.cache_dir_utils import default_cache_dir

from optimizer.compiling.availability import cpp_compiler

CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
CACHE_PREFIX, HEADERS_PREFIX = "cache__", "headers__"


def set_up(scratch: Path, toolchain: Path | None = None) -> Path:
    """Points the compilers at the scratch and gives the cache folder. Call before the first compile of the process."""
    cache = scratch / "inductor"
    os.environ[CACHE_VARIABLE] = str(cache)
    cache.mkdir(parents=True, exist_ok=True)
    compiler = cpp_compiler()
    if compiler is not None:
        # its name, where that finds it: a path would be part of every key
        name = Path(compiler).name
        config.cpp.cxx = (None, name if shutil.which(name) == compiler else compiler)
    # workers import torch each, and a sandbox counts processes: one model's kernels do not pay for that
    config.compile_threads = 1
    if shutil.which("openssl") is None:  # Inductor calls it to key precompiled headers, and fails without
        config.cpp_cache_precompile_headers = False
        config.aot_inductor.precompile_headers = False
    if toolchain is not None:
        link_toolchain(toolchain, cache)
    return cache


def use_plain_headers() -> None:
    """For a process that finds its kernels in a cache: no header is precompiled (20 s and 150 MB for nothing).

    Inductor precompiles before it looks into the cache. Including the plain header gives the same code; only a kernel
    that is not in the cache then compiles slower. Switching the feature off instead would change every key.
    """
    import torch._inductor.codecache as codecache

    def plain(header: str, hashable_cmd_line: str, **_: object) -> str:
        path = headers_folder() / (header.replace("/", "_") + ".plain.h")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#include <{header}>\n")
        return str(path)

    codecache._precompile_header = plain


def headers_folder() -> Path:
    """Inductor keeps precompiled headers here whatever its cache folder is: below TMPDIR, by the name in USER."""
    return Path(default_cache_dir()) / "precompiled_headers"


def headers_made() -> int:
    """Precompiled headers that this process had to make because the toolchain did not hold them."""
    return sum(not path.is_symlink() for path in headers_folder().glob("*.gch"))


def link_toolchain(toolchain: Path, cache: Path) -> int:
    """Links every file of the toolchain to where Inductor looks for it; gives their number."""
    linked = 0
    for source in sorted(toolchain.iterdir()):
        for prefix, folder in ((CACHE_PREFIX, cache), (HEADERS_PREFIX, headers_folder())):
            if source.name.startswith(prefix):
                target = folder / source.name.removeprefix(prefix).replace("__", "/")
                target.parent.mkdir(parents=True, exist_ok=True)
                if not target.exists():
                    target.symlink_to(source)
                    linked += 1
    return linked


def toolchain_files(cache: Path) -> dict[str, Path]:
    """What a seeded process leaves that another model can use: flat name to file."""
    found = {}
    # a probe is named by its key alone; kernels and wrappers of the seed's own models carry a second suffix
    probes = [p for p in cache.glob("*/*.so") if p.name.count(".") == 1 and p.with_suffix(".cpp").exists()]
    for probe in probes:
        for path in (probe, probe.with_suffix(".cpp")):
            found[CACHE_PREFIX + _flat(path, cache)] = path
    headers = headers_folder()
    for path in sorted(headers.glob("*.h*")):
        found[HEADERS_PREFIX + _flat(path, headers)] = path
    return found


def _flat(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix().replace("/", "__")


# ---- a compiled model's own cache ------------------------------------------------------------------------------------


def pack_cache(cache: Path, out: Path) -> None:
    """The cache of one compiled model: graphs, wrappers, kernels and the ISA probes; links are taken in full."""
    with tarfile.open(out, "w", dereference=True) as archive:
        for path in sorted(cache.rglob("*")):
            if path.is_file() and path.suffix not in {".lock", ".gch", ".o"}:
                archive.add(path, path.relative_to(cache).as_posix(), filter=_anonymous)


def unpack_cache(archive: Path, cache: Path) -> None:
    with tarfile.open(archive) as opened:
        opened.extractall(cache, filter="data")


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    return entry
