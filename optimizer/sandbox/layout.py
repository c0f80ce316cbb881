"""What a child sees of the host, read-only: the system's tools, the interpreter, the project's two packages. No more.

Both confinements take it from here. Paths are host paths, and the child sees each at its own path.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import pwd
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

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
MAX_HOPS = 1000  # parts of a path and of all links on its way; the kernel follows 40 links


class PythonLayout(NamedTuple):
    """`real`: what is shown, free of links. `links`: those on the way there, each with what it says."""

    real: tuple[Path, ...]
    links: tuple[tuple[Path, str], ...]


@cache
def project_packages() -> tuple[Path, ...]:
    """The folders of `optimizer` and `kernels`, found where this process imported them from."""
    own = Path(optimizer.__file__).resolve().parent
    kernels = importlib.util.find_spec("kernels")
    if kernels is None or not kernels.submodule_search_locations:
        return (own,)
    return (own, Path(next(iter(kernels.submodule_search_locations))).resolve())


@cache
def python_layout() -> PythonLayout:
    """Of this process's own interpreter."""
    prefixes = (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
    return lay_out(sys.executable, prefixes, _homes())


def interpreter_folders() -> tuple[Path, ...]:
    """What the interpreter needs: the venv and its base, mostly whole folders."""
    return python_layout().real


def links() -> list[tuple[Path, str]]:
    """(link, what it says): those on the way to the interpreter that lie in no folder that is shown."""
    shown = read_only_paths()
    return [(link, to) for link, to in python_layout().links if not any(link.is_relative_to(path) for path in shown)]


def lay_out(executable: str, prefixes: Iterable[str], homes: Iterable[Path]) -> PythonLayout:
    """Whole prefixes, and of the way to the binary only the links themselves: the folder of a link holds anything.

    A prefix that is a home folder, or above one, is never shown whole.
    """
    links: dict[Path, str] = {}
    binary = _followed(Path(executable), links)
    kept: set[Path] = {binary}
    for prefix in prefixes:
        folder = _followed(Path(prefix), links)
        whole = not any(home.is_relative_to(folder) for home in homes)
        kept |= {folder} if whole else _needed_of(folder)
    kept = {path for path in kept if path.exists() and not _in_system(path)}
    kept = {path for path in kept if not any(path != other and path.is_relative_to(other) for other in kept)}
    outside = {link: to for link, to in links.items() if not any(link.is_relative_to(path) for path in kept)}
    return PythonLayout(tuple(sorted(kept)), tuple(sorted(outside.items())))


def _followed(path: Path, links: dict[Path, str]) -> Path:
    """Where `path` leads; every link on the way, in any of its folders, goes to `links` with what it says."""
    waiting = list(reversed(Path(os.path.abspath(path)).parts[1:]))
    real = Path("/")
    for _ in range(MAX_HOPS):
        if not waiting:
            return real
        part = waiting.pop()
        if part == "..":
            real = real.parent
            continue
        step = real / part
        if not step.is_symlink():
            real = step
            continue
        to = os.readlink(step)
        if not _in_system(step):
            links[step] = to
        if os.path.isabs(to):
            real = Path("/")
        waiting += [p for p in reversed(Path(to).parts) if p != "/"]
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _needed_of(prefix: Path) -> set[Path]:
    """What an interpreter needs of a prefix that holds much else."""
    library = f"python{sys.version_info.major}.{sys.version_info.minor}"
    patterns = ("pyvenv.cfg", f"lib/{library}", f"lib64/{library}", "lib/libpython*.so*")
    return {found for pattern in patterns for found in prefix.glob(pattern)}


def _in_system(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in (*SYSTEM_FOLDERS, *SYSTEM_EXTRAS))


def _homes() -> set[Path]:
    """The user's home by the environment and by the system's own list, as given and as it really lies."""
    named = [Path(os.environ["HOME"])] if os.environ.get("HOME") else []
    with suppress(KeyError):  # a uid without a name
        named.append(Path(pwd.getpwuid(os.getuid()).pw_dir))
    return {path for home in named for path in (home, Path(os.path.realpath(home)))}


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
