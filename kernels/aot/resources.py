"""What a kernel takes of a device once compiled, and whether that suffices: the row of the report and of pages.

`bytes_in_flight`: what all resident threads have asked of memory at most before they wait. A memory-bound kernel needs
bandwidth × latency of it to use the whole bandwidth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kernels.aot.compiler import Compiled
from kernels.aot.devices import Device
from kernels.aot.occupancy import Occupancy, occupancy


@dataclass(frozen=True)
class Resources:
    """Of one compiled kernel on one device. Widths are in bits."""

    registers: int
    spills: int
    stack_bytes: int
    shared_bytes: int
    shared_limit_bytes: int
    warps: int
    occupancy: float
    blocks_per_sm: int
    limited_by: str
    loads: dict[str, int]
    stores: dict[str, int]
    vector_loads: int
    vector_stores: int
    tensor_core_instructions: int
    instructions: int
    mix: dict[str, int]
    bytes_in_flight: int
    bytes_in_flight_wanted: int

    @property
    def launches(self) -> bool:
        return self.blocks_per_sm > 0

    def document(self) -> dict[str, Any]:
        return asdict(self)


def resources(compiled: Compiled, device: Device, grid: Sequence[int] | None = None) -> Resources:
    """`grid`: how many blocks there are to run; None where that is not known."""
    fit = occupancy(device, registers=compiled.registers, shared_bytes=compiled.shared_bytes, warps=compiled.warps)
    code = compiled.code
    return Resources(
        registers=compiled.registers,
        spills=compiled.spills,
        stack_bytes=compiled.stack_bytes,
        shared_bytes=compiled.shared_bytes,
        shared_limit_bytes=device.shared_bytes_per_block,
        warps=compiled.warps,
        occupancy=round(fit.share, 4),
        blocks_per_sm=fit.blocks_per_sm,
        limited_by=fit.limited_by,
        loads={str(bits): count for bits, count in code.loads.items()},
        stores={str(bits): count for bits, count in code.stores.items()},
        vector_loads=code.vector_loads,
        vector_stores=code.vector_stores,
        tensor_core_instructions=code.tensor_cores,
        instructions=code.instructions,
        mix=code.mix,
        bytes_in_flight=in_flight(compiled, device, fit, grid),
        bytes_in_flight_wanted=round(device.bytes_in_flight),
    )


def in_flight(compiled: Compiled, device: Device, fit: Occupancy, grid: Sequence[int] | None = None) -> int:
    """Of the whole device. Asynchronous copies land in shared memory: there all of a block's is under way at most."""
    blocks = fit.blocks_per_sm * device.sms
    if grid is not None:
        blocks = min(blocks, math.prod(grid))
    of_a_thread = compiled.code.load_bytes
    of_a_block = of_a_thread * compiled.warps * device.warp_size
    if compiled.code.async_copies:
        of_a_block += compiled.shared_bytes
    return of_a_block * blocks
