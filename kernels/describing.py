"""All that is told of a kernel to those who do not import it: its manifest, its cost, and what it came to when it was
compiled ahead of time.

What was compiled is read out of the report that is kept in `kernels/aot`, of the configuration that runs untuned: it is
predicted, never measured. `kernels/aot/report.md` has the other configurations. Imports no triton.
"""

from __future__ import annotations

import functools
from typing import Any

from kernels.aot import report
from kernels.aot.devices import DEVICES
from kernels.aot.page import exceptions
from kernels.spec import Kernel

RESOURCES = (
    "registers",
    "spills",
    "shared_bytes",
    "shared_limit_bytes",
    "occupancy",
    "limited_by",
    "vector_loads",
    "tensor_core_instructions",
    "bytes_in_flight",
    "bytes_in_flight_wanted",
)


def described(kernel: Kernel) -> dict[str, Any]:
    return {**kernel.manifest(), "cost": cost(kernel), "resources": compiled().get(kernel.name, [])}


def devices() -> dict[str, str]:
    """What stands for each target that kernels are compiled for ahead of time."""
    return {device.target: device.name for device in DEVICES}


def cost(kernel: Kernel) -> list[dict[str, Any]]:
    """The least that one call moves and computes, at arguments of a size met in production, by dtype."""
    found = []
    for dtype in sorted(kernel.tolerances, key=str):
        sample = kernel.typical(dtype)
        least = kernel.cost(*sample.args)
        name = str(dtype).removeprefix("torch.")
        found.append({"dtype": name, "sample": sample.name, "bytes": least.bytes, "flops": least.flops})
    return found


@functools.cache
def compiled() -> dict[str, list[dict[str, Any]]]:
    """By kernel, every launch of the untuned configuration by dtype and target; empty where no report is kept."""
    document = report.read() or {"rows": []}
    found: dict[str, list[dict[str, Any]]] = {}
    untuned: dict[tuple[str, str, str], str] = {}
    for row in document["rows"]:
        place = row["kernel"], row["dtype"], row["target"]
        if untuned.setdefault(place, row["configuration"]) == row["configuration"]:
            found.setdefault(row["kernel"], []).append(_resources(row))
    return found


def _resources(row: report.Row) -> dict[str, Any]:
    head = {name: row[name] for name in ("dtype", "target", "configuration", "launch", "function", "sample")}
    said = {"exceptions": list(exceptions(row))}
    if "error" in row:
        return {**head, **said}
    call = {"bound_us": row["call"]["bound_us"], "bound_by": row["call"]["bound_by"]}
    told = {name: row[name] for name in RESOURCES}
    return {**head, **told, "loads": sum(row["loads"].values()), **call, **said}
