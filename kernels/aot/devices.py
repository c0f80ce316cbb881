"""The GPUs that kernels are compiled for without having one: limits that decide occupancy, and peak rates for bounds.

Figures are of the makers' data sheets, dense (no sparsity), at boost clock: nothing reaches them, so a time computed
from them is a bound. `sources` says where each comes from. Imports neither torch nor triton.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

GUIDE = "CUDA C++ Programming Guide, Technical Specifications per Compute Capability"
LATENCY = "Luo et al., Benchmarking and Dissecting the Nvidia Hopper GPU Architecture, 2024 (arXiv 2402.13499)"


class UnknownTarget(ValueError):
    """The table has no device of this target. The message lists those that it has."""


@dataclass(frozen=True)
class Device:
    """One GPU model. `memory_latency_ns`: of a load that misses every cache, on an idle device."""

    name: str
    target: str
    maker: Literal["nvidia", "amd"]
    sms: int
    memory_bytes_per_s: float
    memory_latency_ns: float
    memory_bytes: int
    l2_bytes: int
    vector_flops_per_s: Mapping[str, float]
    tensor_flops_per_s: Mapping[str, float]
    """By the dtype of the factors; float32 is TensorFloat-32 where the maker has it."""
    warp_size: int
    threads_per_sm: int
    threads_per_block: int
    blocks_per_sm: int
    registers_per_sm: int
    registers_per_thread: int
    shared_bytes_per_sm: int
    shared_bytes_per_block: int
    shared_bytes_reserved: int
    """What the system itself takes of each block's shared memory."""
    sources: tuple[str, ...]
    driver_names: tuple[str, ...] = ()
    """As the driver calls the model, to know one that is here. Other models of a target have other rates."""

    @property
    def architecture(self) -> str:
        """As compilers name it: `sm_90`, `gfx942`."""
        return self.target.partition(":")[2]

    @property
    def bytes_in_flight(self) -> float:
        """What must be under way at any moment to use the whole bandwidth (Little's law)."""
        return self.memory_bytes_per_s * self.memory_latency_ns * 1e-9


# What GUIDE says of 8.0, 9.0 and 10.0 alike.
_nvidia = partial(
    Device,
    maker="nvidia",
    warp_size=32,
    threads_per_sm=2048,
    threads_per_block=1024,
    blocks_per_sm=32,
    registers_per_sm=65536,
    registers_per_thread=255,
    shared_bytes_reserved=1 << 10,
)

A100 = _nvidia(
    name="NVIDIA A100 SXM 80 GB",
    target="cuda:sm_80",
    sms=108,
    memory_bytes_per_s=2.039e12,
    memory_latency_ns=330.0,
    memory_bytes=80 << 30,
    l2_bytes=40 << 20,
    vector_flops_per_s={"float64": 9.7e12, "float32": 19.5e12},
    tensor_flops_per_s={
        "float64": 19.5e12, "float32": 156e12, "bfloat16": 312e12, "float16": 312e12, "int8": 624e12,
    },
    shared_bytes_per_sm=164 << 10,
    shared_bytes_per_block=163 << 10,
    sources=(
        f"limits: {GUIDE}, 8.0",
        "rates: NVIDIA A100 Tensor Core GPU data sheet, SXM 80 GB",
        f"latency: {LATENCY}: some 466 cycles at 1.41 GHz, rounded",
    ),
    driver_names=("NVIDIA A100-SXM4-80GB",),
)  # fmt: skip

H100 = _nvidia(
    name="NVIDIA H100 SXM 80 GB",
    target="cuda:sm_90",
    sms=132,
    memory_bytes_per_s=3.352e12,
    memory_latency_ns=270.0,
    memory_bytes=80 << 30,
    l2_bytes=50 << 20,
    vector_flops_per_s={"float64": 33.5e12, "float32": 66.9e12},
    tensor_flops_per_s={
        "float64": 66.9e12, "float32": 494.7e12, "bfloat16": 989.4e12, "float16": 989.4e12,
        "float8": 1978.9e12, "int8": 1978.9e12,
    },
    shared_bytes_per_sm=228 << 10,
    shared_bytes_per_block=227 << 10,
    sources=(
        f"limits: {GUIDE}, 9.0",
        "rates: NVIDIA H100 Tensor Core GPU Architecture white paper, H100 SXM5, dense",
        f"latency: {LATENCY}: some 479 cycles at 1.755 GHz, rounded",
    ),
    driver_names=("NVIDIA H100 80GB HBM3",),
)  # fmt: skip

# Of the H100 it differs in its memory alone. Nothing is compiled for it apart: its target is the H100's.
H200 = replace(
    H100,
    name="NVIDIA H200 SXM 141 GB",
    memory_bytes_per_s=4.8e12,
    memory_bytes=141_000_000_000,
    sources=(
        *H100.sources[:2],
        "memory: NVIDIA H200 Tensor Core GPU data sheet, H200 SXM",
        "latency: an assumption, the H100's",
    ),
    driver_names=("NVIDIA H200",),
)

B200 = _nvidia(
    name="NVIDIA B200 SXM 180 GB",
    target="cuda:sm_100",
    sms=148,
    memory_bytes_per_s=8.0e12,
    memory_latency_ns=270.0,
    memory_bytes=180 << 30,
    l2_bytes=126 << 20,
    vector_flops_per_s={"float64": 40e12, "float32": 80e12},
    tensor_flops_per_s={
        "float64": 40e12, "float32": 1.1e15, "bfloat16": 2.25e15, "float16": 2.25e15,
        "float8": 4.5e15, "int8": 4.5e15,
    },
    shared_bytes_per_sm=228 << 10,
    shared_bytes_per_block=227 << 10,
    sources=(
        f"limits: {GUIDE}, 10.0",
        "rates: NVIDIA Blackwell Architecture Technical Brief, HGX B200, one GPU, dense",
        "multiprocessors and L2: as the driver reports them, 148 and 126 MiB",
        "latency: an assumption, the H100's: the bytes in flight that are asked of a kernel are rather too few",
    ),
    driver_names=("NVIDIA B200",),
)  # fmt: skip

MI300X = Device(
    name="AMD Instinct MI300X",
    target="rocm:gfx942",
    maker="amd",
    sms=304,
    memory_bytes_per_s=5.3e12,
    memory_latency_ns=600.0,
    memory_bytes=192 << 30,
    l2_bytes=32 << 20,
    vector_flops_per_s={"float64": 81.7e12, "float32": 163.4e12},
    tensor_flops_per_s={
        "float64": 163.4e12, "float32": 163.4e12, "bfloat16": 1307.4e12, "float16": 1307.4e12,
        "float8": 2614.9e12, "int8": 2614.9e12,
    },
    warp_size=64,
    threads_per_sm=2048,
    threads_per_block=1024,
    blocks_per_sm=32,
    registers_per_sm=4 * 512 * 64,
    registers_per_thread=512,
    shared_bytes_per_sm=64 << 10,
    shared_bytes_per_block=64 << 10,
    shared_bytes_reserved=0,
    sources=(
        "limits: AMD Instinct MI300 Instruction Set Architecture guide (512 vector registers a lane in each of 4 "
        "SIMDs, 8 waves a SIMD) and the table of GPU specifications of the ROCm documentation",
        "rates: AMD Instinct MI300X data sheet, dense",
        "latency: an assumption: no published figure is at hand",
    ),
    driver_names=("AMD Instinct MI300X", "AMD Instinct MI300X OAM"),
)  # fmt: skip

DEVICES: tuple[Device, ...] = (A100, H100, B200, MI300X)
KNOWN: tuple[Device, ...] = (*DEVICES, H200)
TARGETS: tuple[str, ...] = tuple(device.target for device in DEVICES)


def device_of(target: str) -> Device:
    """The device that stands for a target. Raises UnknownTarget."""
    for device in DEVICES:
        if device.target == target:
            return device
    raise UnknownTarget(f"there is no figure of a device for {target!r}; known: {', '.join(TARGETS)}")


def device_called(driver_name: str) -> Device | None:
    """The device that the driver calls so; None where its rates are not in the table."""
    return next((device for device in KNOWN if driver_name in device.driver_names), None)
