"""What a child sees of the host, read-only: the system's tools, the interpreter, the project's two packages. No more.

Both confinements take it from here. Paths are host paths, and the child sees each at its own path.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import optimizer

SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SYSTEM_EXTRAS = (
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/sys/devices/system",
    # glibc's huge-page tunable reads these and silently does nothing where they are missing
    "/sys/kernel/mm/transparent_hugepage",
    "/sys/kernel/mm/hugepages",
)
PLAIN_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/random")
# What Landlock opens of /proc beside the child's own folder; a PID namespace has a /proc of its own.
PROC_FILES = (
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/version",
    "/proc/filesystems",
    "/proc/sys/kernel",
    "/proc/sys/vm",
)

BOOTSTRAP = Path(__file__).resolve().parent / "bootstrap.py"
SHIM = Path(__file__).resolve().parent / "shim.py"


@cache
def project_packages() -> tuple[Path, ...]:
    """The folders of `optimizer` and `kernels`, found where this process imported them from."""
    own = Path(optimizer.__file__).resolve().parent
    kernels = importlib.util.find_spec("kernels")
    if kernels is None or not kernels.submodule_search_locations:
        return (own,)
    return (own, Path(next(iter(kernels.submodule_search_locations))).resolve())


@cache
def interpreter_folders() -> tuple[Path, ...]:
    """Every folder that the interpreter needs: the venv, its base, and what links between them lead through."""
    folders = {Path(p) for p in (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)}
    folders |= {Path(os.path.realpath(folder)) for folder in folders}
    hop = sys.executable
    while True:
        folders.add(Path(os.path.normpath(hop)).parent.parent)
        if not os.path.islink(hop):
            break
        hop = os.path.join(os.path.dirname(hop), os.readlink(hop))
    folders.add(Path(os.path.realpath(sys.executable)).parent.parent)
    kept = [f for f in folders if f != Path("/") and f.is_dir() and not f.is_relative_to("/usr")]
    return tuple(sorted(f for f in kept if not any(f != other and f.is_relative_to(other) for other in kept)))


def read_only_paths() -> list[Path]:
    """All of it, outermost folders first, only what exists."""
    wanted = [Path(p) for p in (*SYSTEM_FOLDERS, *SYSTEM_EXTRAS)]
    wanted += [*interpreter_folders(), *project_packages()]
    return [p for p in dict.fromkeys(wanted) if p.exists()]


def child_command(wire_fd: int, paths: Mapping[str, str]) -> list[str]:
    """The child proper. -I: neither the working folder nor PYTHON* variables nor a user's packages count."""
    return [sys.executable, "-I", "-B", str(BOOTSTRAP), str(wire_fd), *map(str, project_packages())]


def shim_command(config_fd: int) -> list[str]:
    return [sys.executable, "-I", "-S", "-B", str(SHIM), str(config_fd)]
