"""Whether this machine has what a backend needs. Imports no engine: asking must be cheap and possible without one."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path

from optimizer import devices

CUDA_PROVIDER = "libonnxruntime_providers_cuda.so"
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
    if kind == "cuda":
        return devices.why_none()
    if kind == "rocm":
        return f"no device of {target} can be given to a sandboxed child yet: use cpu or cuda:sm_NN"
    return f"there is no target called {target!r}: it is cpu, cuda:sm_NN or rocm:gfxNNN"


def no_cuda_provider(target: str) -> str | None:
    """Why ONNX Runtime cannot compute for this target; None for a CPU. Whether the provider starts, the child sees."""
    if target.partition(":")[0] == "cpu":
        return None
    if target.partition(":")[0] != "cuda":
        return cpu_only("ONNX Runtime", target)
    found = importlib.util.find_spec("onnxruntime")
    folder = Path(found.origin).parent if found is not None and found.origin else None
    if folder is None or not (folder / "capi" / CUDA_PROVIDER).exists():
        return "this onnxruntime has no CUDA provider: pip install onnxruntime-gpu in its place"
    return gpu_unavailable(target)


def cpu_only(engine: str, target: str) -> str | None:
    if target.partition(":")[0] == "cpu":
        return None
    return f"{engine} is used on the CPU only, and the target is {target}: choose eager, inductor or aot_inductor"


KERNELS_RECORDED = (
    "torch.profiler over the same graph, compiled once more with the same options and with kernels that record "
    "themselves (cpp.enable_kernel_profile). The judged artifact has no such records in it."
)


def kernels_unrecorded(target: str) -> str | None:
    """Why Inductor's kernels cannot be profiled for this target; None on a CPU, where they can record themselves."""
    if target.partition(":")[0] == "cpu":
        return None
    return "its kernels record themselves on a CPU only, and how long one takes on a GPU is not read yet"
