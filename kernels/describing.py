"""All that is told of a kernel to those who do not import it: its manifest, its cost, what it came to when it was
compiled ahead of time, how far it was found right, and what a GPU measured of it.

What was compiled is read out of the report that is kept in `kernels/aot`: it is predicted, never measured. Resources
are of the configuration that runs untuned, exceptions of all of them. The correctness matrix is kept in
`kernels/correctness.json`; what was measured, where any GPU has run it, in `kernels/measured/`. Imports no triton.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Iterable
from typing import Any

from kernels import correctness, measured
from kernels.aot import report
from kernels.aot.causes import explained
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
    return {
        **kernel.manifest(),
        "cost": cost(kernel),
        "resources": compiled().get(kernel.name, []),
        "exceptions": exceptions_of(kernel, _rows().get(kernel.name, [])),
        "correctness": matrix(kernel),
        "measured": measured.of_kernel(kernel.name),
    }


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


@functools.cache
def _rows() -> dict[str, list[report.Row]]:
    found: dict[str, list[report.Row]] = {}
    for row in (report.read() or {"rows": []})["rows"]:
        found.setdefault(row["kernel"], []).append(row)
    return found


def exceptions_of(kernel: Kernel, rows: Iterable[report.Row]) -> list[dict[str, Any]]:
    """Each cause once, with every place where it was met. `reason`: what the kernel's own file says of its kind."""
    found: dict[tuple[str, str, int], dict[str, Any]] = {}
    for row in rows:
        for one in explained(row, products=_multiplies(kernel, row["function"])):
            key = one.kind, one.cause, row["launch"]
            entry = found.setdefault(
                key,
                {
                    "kind": one.kind, "cause": one.cause, "launch": row["launch"], "function": row["function"],
                    "reason": kernel.reasons.get(one.kind), "places": [],
                },
            )  # fmt: skip
            place = {name: row[name] for name in ("dtype", "target", "configuration")}
            entry["places"].append({**place, "facts": one.facts, "because": one.because})
    return list(found.values())


@functools.cache
def _multiplies(kernel: Kernel, function: str) -> bool:
    """Whether one of its Triton functions multiplies matrices."""
    home = importlib.import_module(type(kernel).__module__)
    return "tl.dot(" in inspect.getsource(getattr(home, function, kernel.launches))


def matrix(kernel: Kernel) -> dict[str, Any] | None:
    """The kept correctness matrix; `current` is false where the kernel was changed since. None where none is kept."""
    entry: dict[str, Any] | None = _kept_matrix().get(kernel.name)
    if entry is None:
        return None
    told = {name: entry[name] for name in ("date", "triton", "torch", "rows")}
    return {**told, "current": correctness.is_current(kernel, entry)}


@functools.cache
def _kept_matrix() -> dict[str, Any]:
    found: dict[str, Any] = (correctness.read() or {"kernels": {}})["kernels"]
    return found


def _resources(row: report.Row) -> dict[str, Any]:
    head = {name: row[name] for name in ("dtype", "target", "configuration", "launch", "function", "sample")}
    said = {"exceptions": list(exceptions(row))}
    if "error" in row:
        return {**head, **said}
    call = {"bound_us": row["call"]["bound_us"], "bound_by": row["call"]["bound_by"]}
    told = {name: row[name] for name in RESOURCES}
    return {**head, **told, "loads": sum(row["loads"].values()), **call, **said}
