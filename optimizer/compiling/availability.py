"""Whether this machine has what a backend needs. Imports no engine: asking must be cheap and possible without one."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

COMPILERS = ("g++", "clang++", "c++")


def cpp_compiler(path: str | None = None) -> str | None:
    """The C++ compiler that Inductor will use: the first one on this PATH (null: the process's own).

    Not $CXX: a child's environment is scrubbed, so that it would be one compiler here and another there.
    """
    return next((found for name in COMPILERS if (found := shutil.which(name, path=path))), None)


def no_compiler() -> str | None:
    if cpp_compiler() is not None:
        return None
    return "there is no C++ compiler on the PATH: install g++ (Debian: apt install g++; Fedora: dnf install gcc-c++)"


def not_installed(package: str) -> str | None:
    if importlib.util.find_spec(package) is not None:
        return None
    return f"the package {package} is not installed: pip install {package}"


def gpu_unavailable(target: str) -> str | None:
    """Why no contender can run for this target here; None for a CPU."""
    kind = target.partition(":")[0]
    if kind == "cpu":
        return None
    device = {"cuda": "/dev/nvidiactl", "rocm": "/dev/kfd"}.get(kind)
    if device is None:
        return f"there is no target called {target!r}: it is cpu, cuda:sm_NN or rocm:gfxNNN"
    if not Path(device).exists():
        return f"this machine has no GPU for {target} (no {device}): run it on a worker that has one"
    return None


def cpu_only(engine: str, target: str) -> str | None:
    if target.partition(":")[0] == "cpu":
        return None
    return f"{engine} is used on the CPU only, and the target is {target}: choose eager, inductor or aot_inductor"
