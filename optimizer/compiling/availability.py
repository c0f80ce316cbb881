"""Whether this machine has what a backend needs. Imports no engine: asking must be cheap and possible without one."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path

COMPILERS = ("g++", "clang++", "c++")


def cpp_compiler() -> str | None:
    """The C++ compiler that Inductor will use: $CXX, else the first one on the PATH.

    A child's environment is scrubbed: it sees the system's folders, and $CXX only when its spec passes it on.
    """
    wanted = os.environ.get("CXX")
    names = (*([wanted] if wanted else []), *COMPILERS)
    return next((found for name in names if (found := shutil.which(name))), None)


def no_compiler() -> str | None:
    if cpp_compiler() is not None:
        return None
    return "there is no C++ compiler on the PATH: install g++ (Debian: apt install g++; Fedora: dnf install gcc-c++)"


def no_python_headers() -> str | None:
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if header.exists():
        return None
    return f"{header} is missing: install the headers of this Python (Debian: apt install python3-dev)"


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
