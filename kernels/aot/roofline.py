"""The least time that a call can take on a device: the roofline. Nothing real reaches it.

    bound = max(bytes / bandwidth, flops / rate)

The rate is the tensor cores' of the factors' dtype where the compiled code uses them, else the vector units': bfloat16
arithmetic outside tensor cores is float32's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kernels.aot.devices import Device


@dataclass(frozen=True)
class Bound:
    us: float
    by: Literal["memory", "compute"]


def bound(device: Device, *, bytes: int, flops: int, dtype: str, tensor_cores: bool) -> Bound:
    """`dtype` without the `torch.`: of what is multiplied."""
    memory_us = 1e6 * bytes / device.memory_bytes_per_s
    compute_us = 1e6 * flops / rate(device, dtype, tensor_cores)
    return Bound(compute_us, "compute") if compute_us > memory_us else Bound(memory_us, "memory")


def rate(device: Device, dtype: str, tensor_cores: bool) -> float:
    if tensor_cores and dtype in device.tensor_flops_per_s:
        return device.tensor_flops_per_s[dtype]
    return device.vector_flops_per_s["float64" if dtype == "float64" else "float32"]
