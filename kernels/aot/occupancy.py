"""How many blocks of a kernel fit on one multiprocessor, and what keeps more from it: the makers' own formulas.

NVIDIA: registers are given to a warp in units of 256 and to four quarters of the multiprocessor alike; shared memory in
units of 128 bytes. AMD: a lane's registers in units of 8, waves in four SIMDs. Pure arithmetic: imports nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernels.aot.devices import Device

REGISTER_UNIT, SHARED_UNIT, QUARTERS = 256, 128, 4
AMD_REGISTER_UNIT, AMD_SHARED_UNIT, AMD_SIMDS, AMD_LANE_REGISTERS, AMD_WAVES_PER_SIMD = 8, 512, 4, 512, 8


@dataclass(frozen=True)
class Occupancy:
    """`share`: resident threads of those that the multiprocessor can hold. No blocks: the kernel does not launch."""

    blocks_per_sm: int
    share: float
    limited_by: str


def occupancy(device: Device, *, registers: int, shared_bytes: int, warps: int) -> Occupancy:
    """`registers` of one thread; `shared_bytes` and `warps` of one block."""
    threads = warps * device.warp_size
    if threads > device.threads_per_block:
        return Occupancy(0, 0.0, "threads in one block")
    if shared_bytes > device.shared_bytes_per_block:
        return Occupancy(0, 0.0, "shared memory of one block")
    if registers > device.registers_per_thread:
        return Occupancy(0, 0.0, "registers of one thread")
    limits = {
        "registers": _by_registers(device, registers, warps),
        "shared memory": _by_shared_memory(device, shared_bytes),
        "threads": device.threads_per_sm // threads,
        "blocks": device.blocks_per_sm,
    }
    # of equal limits the one that no change of the kernel's code moves is named: threads before registers
    order = ["threads", "blocks", "registers", "shared memory"]
    limited_by = min(order, key=lambda name: limits[name])
    blocks = limits[limited_by]
    return Occupancy(blocks, blocks * threads / device.threads_per_sm, limited_by)


def _by_registers(device: Device, registers: int, warps: int) -> int:
    if device.maker == "amd":
        a_lane = _round_up(max(registers, 1), AMD_REGISTER_UNIT)
        waves = AMD_SIMDS * min(AMD_WAVES_PER_SIMD, AMD_LANE_REGISTERS // a_lane)
        return waves // warps
    of_a_warp = _round_up(max(registers, 1) * device.warp_size, REGISTER_UNIT)
    resident = device.registers_per_sm // of_a_warp
    return (resident // QUARTERS * QUARTERS) // warps


def _by_shared_memory(device: Device, shared_bytes: int) -> int:
    unit = AMD_SHARED_UNIT if device.maker == "amd" else SHARED_UNIT
    of_a_block = _round_up(shared_bytes + device.shared_bytes_reserved, unit)
    return device.shared_bytes_per_sm // of_a_block if of_a_block else device.blocks_per_sm


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
