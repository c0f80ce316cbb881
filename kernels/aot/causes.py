"""Why a compiled kernel has what one would not want of it: told of each exception of the report, from its own figures.

Derived here is what the figures show. Where they show too little, `cause` is `untold`, and the kernel's own file must
say it (`Kernel.reasons`, by kind); a test holds that it does. All of it is predicted, as the report is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernels.aot.devices import Device, device_of
from kernels.aot.machine_code import WIDE_BITS

if TYPE_CHECKING:
    from kernels.aot.report import Row

KINDS = ("does_not_compile", "over_limit", "spills", "narrow_loads", "few_bytes_in_flight")
UNTOLD = "untold"
ELEMENT_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int8": 1}
AMD_REGISTER_UNIT = 8

# English, with the facts filled in; pages have texts of their own for each cause.
BECAUSE = {
    "shared_memory": "its tiles take {needed_bytes} bytes of shared memory of a block, {limit_bytes} are there",
    "registers": "a thread takes {registers} registers, {limit} are there",
    "float32_products": (
        "products in float32 are held to float32's error, so they run on the vector units, whose operands lie in "
        "registers: the tile of this configuration takes more than the {limit} of a thread"
    ),
    "register_limit": "it takes more than the {limit} registers that a thread of {warps} warps may have",
    "scalar_registers": "scalar registers lie in lanes of vector registers: no memory is touched",
    "assembler": (
        "the assembler keeps {stack_bytes} bytes of a thread on its stack although registers are left "
        "({registers} of {limit})"
    ),
    "small_tile": (
        "a thread's part of the tile is {tile_bytes} bytes, less than one load of 128 bits: {elements} elements of "
        "{element_bytes} bytes on {threads} threads"
    ),
    "single_block": "one block adds up what the launch before it left; that is little, whatever the device",
    "small_grid": (
        "at this size there are {blocks} blocks; the device holds {resident_blocks} at once, which would be enough"
    ),
    "occupancy": (
        "limited by {limited_by}, a multiprocessor holds {share} per cent of the threads that it could; all of them "
        "would be enough"
    ),
    "little_per_thread": (
        "a thread asks for {thread_bytes} bytes before it waits; with every thread resident {wanted_bytes} are wanted"
    ),
    UNTOLD: "its figures do not show why",
}


@dataclass(frozen=True)
class Explained:
    """One exception of one row. `facts` fill the text of its cause."""

    kind: str
    cause: str
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def because(self) -> str:
        return BECAUSE[self.cause].format(**self.facts)


def kinds(row: Row) -> Iterator[str]:
    """Which exceptions a row has."""
    if "error" in row:
        yield "does_not_compile"
        return
    if row["blocks_per_sm"] == 0:
        yield "over_limit"
    if row["spills"]:
        yield "spills"
    if row["call"]["bound_by"] == "memory":
        if row["loads"] and not row["vector_loads"]:
            yield "narrow_loads"
        if 0 < row["bytes_in_flight"] < row["bytes_in_flight_wanted"]:
            yield "few_bytes_in_flight"


def explained(row: Row, *, products: bool) -> Iterator[Explained]:
    """`products`: the kernel's code multiplies matrices (`tl.dot`)."""
    device = device_of(row["target"])
    for kind in kinds(row):
        if kind == "does_not_compile":
            yield Explained(kind, UNTOLD)
        elif kind == "over_limit":
            yield _over_limit(row, device)
        elif kind == "spills":
            yield _spills(row, device, products)
        elif kind == "narrow_loads":
            yield _narrow(row, device)
        else:
            yield _in_flight(row, device)


def _over_limit(row: Row, device: Device) -> Explained:
    needed, limit = row["shared_bytes"], row["shared_limit_bytes"]
    if needed > limit:
        return Explained("over_limit", "shared_memory", {"needed_bytes": needed, "limit_bytes": limit})
    if row["registers"] > device.registers_per_thread:
        facts = {"registers": row["registers"], "limit": device.registers_per_thread}
        return Explained("over_limit", "registers", facts)
    return Explained("over_limit", UNTOLD)


def _spills(row: Row, device: Device, products: bool) -> Explained:
    limit = register_limit(device, row["warps"])
    if products and row["dtype"] == "float32" and row["tensor_core_instructions"] == 0:
        return Explained("spills", "float32_products", {"limit": limit})
    if row["registers"] >= limit:
        return Explained("spills", "register_limit", {"limit": limit, "warps": row["warps"]})
    if device.maker == "amd" and row["stack_bytes"] == 0:
        return Explained("spills", "scalar_registers")
    facts = {"stack_bytes": row["stack_bytes"], "registers": row["registers"], "limit": limit}
    return Explained("spills", "assembler", facts)


def register_limit(device: Device, warps: int) -> int:
    """Of one thread, when a block of so many warps is to be resident at all."""
    share = device.registers_per_sm // (warps * device.warp_size)
    return min(device.registers_per_thread, share // AMD_REGISTER_UNIT * AMD_REGISTER_UNIT)


def _narrow(row: Row, device: Device) -> Explained:
    """A tile's sizes are the constants of the configuration."""
    sizes = {name: int(size) for name, size in re.findall(r"(\w+)=(\d+)", row["configuration"])}
    elements = math.prod(size for name, size in sizes.items() if name not in ("warps", "stages"))
    threads = row["warps"] * device.warp_size
    width = ELEMENT_BYTES[row["dtype"]]
    of_a_thread = elements * width / threads
    if of_a_thread >= WIDE_BITS / 8:
        return Explained("narrow_loads", UNTOLD)
    facts = {"tile_bytes": f"{of_a_thread:g}", "elements": elements, "element_bytes": width, "threads": threads}
    return Explained("narrow_loads", "small_tile", facts)


def _in_flight(row: Row, device: Device) -> Explained:
    kind, wanted = "few_bytes_in_flight", row["bytes_in_flight_wanted"]
    resident, grid = row["blocks_per_sm"] * device.sms, math.prod(row["grid"])
    blocks = min(resident, grid)
    of_a_block = row["bytes_in_flight"] / max(blocks, 1)
    threads = row["warps"] * device.warp_size
    most = min(device.threads_per_sm // threads, device.blocks_per_sm) * device.sms
    if grid == 1 and row["launch"] > 0:
        return Explained(kind, "single_block")
    if of_a_block * resident >= wanted:
        return Explained(kind, "small_grid", {"blocks": grid, "resident_blocks": resident})
    if of_a_block * most >= wanted:
        share = round(100 * row["occupancy"])
        return Explained(kind, "occupancy", {"limited_by": row["limited_by"], "share": share})
    per_thread = {"thread_bytes": f"{of_a_block / threads:.0f}", "wanted_bytes": math.ceil(wanted / most / threads)}
    return Explained(kind, "little_per_thread", per_thread)
