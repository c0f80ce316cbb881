"""What GPU this process sees, with all that two results must have in common to be compared."""

from __future__ import annotations

import platform
import sys
from typing import Any

import torch

from kernels.aot.devices import Device, device_called

DEVICE = "cuda"  # torch's name for both makers' GPUs


def why_none() -> str | None:
    """Why there is no GPU to check on; None where there is one."""
    if torch.cuda.is_available():
        return None
    built = torch.version.cuda or torch.version.hip
    if built is None:
        return f"torch {torch.__version__} is built without CUDA and ROCm"
    return f"torch {torch.__version__} is built for {built} and finds no device: no GPU, no driver, or no right to it"


def target() -> str:
    """`cuda:sm_90`, `rocm:gfx942`."""
    if torch.version.hip:
        arch = str(torch.cuda.get_device_properties(0).gcnArchName)
        return f"rocm:{arch.partition(':')[0]}"
    major, minor = torch.cuda.get_device_capability(0)
    return f"cuda:sm_{major}{minor}"


def roof() -> Device | None:
    """The rates of this very model; None where the table of devices has it not."""
    return device_called(torch.cuda.get_device_name(0))


def place(*, interpreter: bool) -> dict[str, Any]:
    import triton

    common = {"torch": torch.__version__, "triton": triton.__version__, "python": platform.python_version()}
    if interpreter:
        return {
            **common,
            "device": "none: Triton's interpreter on a CPU",
            "target": "cpu",
            "roof": None,
            "driver": None,
        }
    known, properties = roof(), torch.cuda.get_device_properties(0)
    return {
        **common,
        "device": torch.cuda.get_device_name(0),
        "target": target(),
        "roof": None if known is None else known.name,
        "driver": _driver(),
        "runtime": torch.version.hip or torch.version.cuda,
        "multiprocessors": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
    }


def _driver() -> str | None:
    """As the maker's library says; None where it does not answer."""
    try:
        import pynvml  # type: ignore[import-not-found]  # where it is there by chance
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError as error:
        print(f"the driver's version is not known: {error}", file=sys.stderr)
        return None
