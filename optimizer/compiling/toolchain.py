"""The compile cache of this host and toolchain, seen from the coordinator. No torch.

A cold C++ toolchain costs each build some 25 s: the ISA probes and two headers of 150 MB. They are made once by a
trusted child, never by one that has an upload in it, and bound read-only into the children that build.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import optimizer.compiling.errors  # noqa: F401
from optimizer import machine
from optimizer.compiling.availability import cpp_compiler
from optimizer.errors import FuseworksError
from optimizer.sandbox import Child, ChildSpec

SEED_TIMEOUT_S = 300.0
LAYOUT = 2  # of the files and their keys; another one makes every cache anew
UNUSED_DAYS = 30  # 450 MB each: one that no run has used for so long goes when another is made
StartChild = Callable[[ChildSpec], Child]


@dataclass(frozen=True)
class Toolchain:
    """`seeded_s` is None when the cache was there already."""

    folder: Path
    size_bytes: int
    seeded_s: float | None


def default_folder() -> Path:
    """`${XDG_CACHE_HOME:-~/.cache}/fuseworks`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fuseworks"


def toolchain_cache(start_child: StartChild, folder: Path | None = None) -> Toolchain | None:
    """The cache, seeded when it is not there; None where there is no compiler. Raises FuseworksError."""
    if cpp_compiler() is None:
        return None
    folder = folder or default_folder()
    final = folder / f"toolchain-{toolchain_key()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / ".toolchain.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two runs at once seed once
            seeded_s = None if final.is_dir() else _seed(start_child, folder, final)
            os.utime(final)
    except OSError as error:
        raise FuseworksError("compiling:ours:toolchain", text=str(error)) from error
    return Toolchain(final, sum(p.stat().st_size for p in final.iterdir()), seeded_s)


def toolchain_key() -> str:
    """Everything that decides whether a probe or header is still right."""
    compiler = cpp_compiler()
    said = ""
    if compiler is not None:
        said = subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    facts = {
        "compiler": [compiler, said],
        "layout": LAYOUT,
        "python": [sys.version, sys.base_prefix],
        "torch": importlib.metadata.version("torch"),
        "torch_at": str(importlib.metadata.distribution("torch").locate_file("torch")),  # header paths are in the flags
        "isa": machine.cpu_isa(),
        "fuseworks": _own_version(),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _own_version() -> str:
    try:
        return importlib.metadata.version("fuseworks")
    except importlib.metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return "source"


def _seed(start_child: StartChild, folder: Path, final: Path) -> float:
    """Seeds into a folder of its own and renames it: another process sees all of it or nothing."""
    partial = Path(tempfile.mkdtemp(prefix=".toolchain-", dir=folder))
    try:
        with start_child(ChildSpec(name="toolchain", trusted=True)) as child:
            reply = child.call("compiling.seed_toolchain", timeout_s=SEED_TIMEOUT_S, collect=partial)
        if not any(partial.iterdir()):
            raise FuseworksError("compiling:ours:toolchain", text="the compiler left nothing to keep")
        partial.chmod(0o755)  # children run under another uid and read it
        for path in partial.iterdir():
            path.chmod(0o644)
        partial.rename(final)
        _remove_unused(folder)
        return float(reply.fields["seconds"])
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _remove_unused(folder: Path) -> None:
    oldest = time.time() - UNUSED_DAYS * 86_400
    for other in folder.glob("toolchain-*"):
        if other.stat().st_mtime < oldest:
            shutil.rmtree(other, ignore_errors=True)
