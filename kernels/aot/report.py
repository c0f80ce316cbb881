"""The report that is kept beside this module: every kernel × configuration × dtype × target, and what it came to.

A row is compiled anew only where the compiler would see something else (`compiler.identity`). Resources are those of
one launch; bytes, FLOPs and the bound are those of the whole call. No times of this machine stand in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kernels import KERNELS
from kernels.aot.compiler import Compiled, DoesNotCompile, Source, compile_sources, identity, source_of
from kernels.aot.devices import DEVICES, TARGETS, Device, device_of
from kernels.aot.resources import resources
from kernels.aot.roofline import bound
from kernels.spec import Cost, Kernel, jit

FILE = Path(__file__).with_name("report.json")
SCHEMA_VERSION = "1.0"
Row = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """One launch of one kernel for one device. `place` names the row, whatever the source is."""

    kernel: str
    configuration: str
    dtype: str
    launch: int
    device: Device
    source: Source
    grid: tuple[int, ...]
    cost: Cost
    sample: str

    @property
    def place(self) -> tuple[str, str, str, str, int]:
        return self.kernel, self.configuration, self.dtype, self.device.target, self.launch

    @property
    def key(self) -> str:
        return identity(self.source)


def requests(names: Collection[str] | None = None, targets: Collection[str] = TARGETS) -> Iterator[Request]:
    """All that the registered kernels have, or those of some names."""
    devices = [device_of(target) for target in targets]
    for kernel in KERNELS:
        if names is None or kernel.name in names:
            yield from _of_kernel(kernel, devices)


def _of_kernel(kernel: Kernel, devices: list[Device]) -> Iterator[Request]:
    for dtype in kernel.tolerances:
        if dtype == torch.float64:  # Triton code computes in float32
            continue
        sample = kernel.typical(dtype)
        cost = kernel.cost(*sample.args)
        fitting = [device for device in devices if kernel.missing_on(device.target) is None]
        for configuration in kernel.configurations(*sample.args):
            outputs = kernel.fake(*sample.args)
            for number, launch in enumerate(kernel.launches(outputs, configuration, *sample.args)):
                source = source_of(
                    jit(launch.function), launch.args, launch.constants, launch.num_warps, launch.num_stages
                )
                for device in fitting:
                    yield Request(
                        kernel=kernel.name,
                        configuration=configuration.name,
                        dtype=str(dtype).removeprefix("torch."),
                        launch=number,
                        device=device,
                        source=source,
                        grid=tuple(launch.grid),
                        cost=cost,
                        sample=sample.name,
                    )


def rows_of(requests: Sequence[Request]) -> list[Row]:
    """Compiles. What the compiler refuses is a row with its words."""
    rows: dict[tuple[str, str, str, str, int], Row] = {}
    for device in dict.fromkeys(request.device.target for request in requests):
        here = [request for request in requests if request.device.target == device]
        built = compile_sources([request.source for request in here], here[0].device)
        rows.update({r.place: _row(r, one) for r, one in zip(here, built, strict=True)})
    return [rows[request.place] for request in requests]


def _row(request: Request, compiled: Compiled | DoesNotCompile) -> Row:
    head: Row = {
        "kernel": request.kernel,
        "configuration": request.configuration,
        "dtype": request.dtype,
        "target": request.device.target,
        "launch": request.launch,
        "function": request.source.function.fn.__name__,
        "sample": request.sample,
        "key": request.key,
    }
    if isinstance(compiled, DoesNotCompile):
        return {**head, "error": str(compiled)}
    found = resources(compiled, request.device, request.grid)
    least = bound(
        request.device,
        bytes=request.cost.bytes,
        flops=request.cost.flops,
        dtype=request.dtype,
        tensor_cores=found.tensor_core_instructions > 0,
    )
    call = {
        "bytes": request.cost.bytes,
        "flops": request.cost.flops,
        "bound_us": round(least.us, 3),
        "bound_by": least.by,
    }
    return {**head, "grid": list(request.grid), **found.document(), "call": call}


def place_of(row: Row) -> tuple[str, str, str, str, int]:
    return row["kernel"], row["configuration"], row["dtype"], row["target"], row["launch"]


def report(
    kept: dict[str, Any] | None,
    tell: Callable[[str], None],
    *,
    anew: bool = False,
    save: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, Any]:
    """All rows; those of `kept` that are still true are taken over unless all are asked for anew. `save` gets what is
    known after each kernel that was compiled: some take minutes."""
    old = [row for row in (kept or {}).get("rows", []) if row["kernel"] in KERNELS.names()]
    known = {(place_of(row), row["key"]): row for row in old}
    rows = {name: [row for row in old if row["kernel"] == name] for name in KERNELS.names()}
    for name in KERNELS.names():
        asked = list(requests([name]))
        fresh = [one for one in asked if anew or (one.place, one.key) not in known]
        if fresh:
            tell(f"compiling {name}: {len(fresh)} of {len(asked)}")
        made = {place_of(row): row for row in rows_of(fresh)}
        rows[name] = [made.get(one.place) or known[one.place, one.key] for one in asked]
        if fresh:
            save(_document(rows))
    return _document(rows)


def _document(rows: dict[str, list[Row]]) -> dict[str, Any]:
    import triton

    return {
        "schema_version": SCHEMA_VERSION,
        "triton": triton.__version__,
        "devices": {device.target: {"name": device.name, "sources": list(device.sources)} for device in DEVICES},
        "rows": [row for name in rows for row in rows[name]],
    }


def read(path: Path = FILE) -> dict[str, Any] | None:
    """None where no report is kept yet."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def write(document: dict[str, Any], path: Path = FILE) -> None:
    """One row a line, so that a change shows in a diff as what it is."""
    head = {key: value for key, value in document.items() if key != "rows"}
    lines = ",\n".join("  " + json.dumps(row, sort_keys=True) for row in document["rows"])
    text = json.dumps(head, indent=1)[:-2] + ',\n "rows": [\n' + lines + "\n ]\n}\n"
    path.write_text(text, encoding="utf-8")
