"""Python, the C++ compiler and the compile cache: what a build needs."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from optimizer.compiling.availability import cpp_compiler
from optimizer.compiling.toolchain import default_folder, toolchain_key
from optimizer.doctor.check import Check

SUPPORTED = ((3, 11), (3, 14))


def checks() -> Iterator[Check]:
    yield python()
    yield libc()
    yield compiler()
    yield python_headers()
    yield compile_cache()


def python(version: tuple[int, ...] = sys.version_info[:3]) -> Check:
    text = f"{'.'.join(map(str, version))} at {sys.executable}"
    if SUPPORTED[0] <= version[:2] < SUPPORTED[1]:
        return Check("Python", "ok", text)
    return Check("Python", "fail", text, "the engines have no wheels for it", "use Python 3.11, 3.12 or 3.13")


def libc() -> Check:
    name, version = platform.libc_ver()
    if name == "glibc":
        return Check("C library", "ok", f"{name} {version}")
    found = f"{name} {version}".strip() or "not glibc"
    return Check("C library", "warn", found, "the runtime setting `allocator: glibc-no-trim` has no effect")


def compiler() -> Check:
    found = cpp_compiler()
    if found is None:
        return Check(
            "C++ compiler",
            "warn",
            "none on the PATH",
            "the backends inductor and aot_inductor are not tried: often the fastest ones",
            "install g++ (Debian: apt install g++; Fedora: dnf install gcc-c++)",
        )
    said = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=30, check=False)
    if said.returncode != 0:
        return Check(
            "C++ compiler",
            "warn",
            f"{found} does not run: {said.stderr.strip()[:200]}",
            "the backends inductor and aot_inductor fail on every candidate",
            "reinstall it, or name another one in CXX",
        )
    return Check("C++ compiler", "ok", f"{said.stdout.splitlines()[0]} at {found}")


def python_headers() -> Check:
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if header.exists():
        return Check("Python headers", "ok", str(header.parent))
    return Check(
        "Python headers",
        "warn",
        f"{header} is missing",
        "torch.compile cannot build its bindings: the backend inductor fails; aot_inductor needs none",
        "install the headers of this Python (Debian: apt install python3-dev)",
    )


def compile_cache() -> Check:
    folder = default_folder()
    place = next(p for p in (folder, *folder.parents) if p.exists())
    if not os.access(place, os.W_OK):
        return Check(
            "compile cache",
            "warn",
            f"{folder} cannot be written",
            "every build pays some 25 s for probing the compiler and parsing headers",
            "set XDG_CACHE_HOME to a folder of your own",
        )
    if cpp_compiler() is None:
        return Check("compile cache", "ok", f"{folder}, unused without a compiler")
    if (folder / f"toolchain-{toolchain_key()}").is_dir():
        return Check("compile cache", "ok", f"seeded in {folder}")
    return Check(
        "compile cache", "warn", f"not yet seeded in {folder}", "the first run takes about half a minute more, once"
    )
