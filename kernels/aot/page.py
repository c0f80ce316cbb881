"""The report as a page for people: one table a target, the exceptions first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kernels.aot.causes import kinds
from kernels.aot.report import Row

HEADER = (
    "| kernel | dtype | configuration | registers | spills | shared | occupancy | limited by | 128-bit loads | tensor "
    "cores | bytes in flight | bound |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def markdown(document: dict[str, Any]) -> str:
    return "\n".join(_lines(document)) + "\n"


def _lines(document: dict[str, Any]) -> Iterator[str]:
    rows = document["rows"]
    yield "# Kernels compiled ahead of time"
    yield ""
    yield (
        f"Predicted, not measured: compiled by triton {document['triton']} for GPUs that were not there, at arguments "
        "of a size met in production. Written by `make aot`; `make aot-check` compares. Bound: the least time of the "
        "whole call by bandwidth and FLOP/s (`kernels/aot/roofline.py`). Bytes in flight: in per cent of bandwidth × "
        "latency; below 100 a memory-bound kernel cannot use the whole bandwidth."
    )
    yield ""
    yield "## Exceptions"
    yield ""
    found = [f"- {_name(row)}: {text}" for row in rows for text in exceptions(row)]
    yield from found or ["None."]
    for target, device in document["devices"].items():
        yield ""
        yield f"## {target}: {device['name']}"
        yield ""
        yield from (f"- {source}" for source in device["sources"])
        yield ""
        yield HEADER
        yield from (_row(row) for row in rows if row["target"] == target)


def exceptions(row: Row) -> Iterator[str]:
    """What one would not want of a kernel, in words."""
    for kind in kinds(row):
        yield _text(kind, row)


def _text(kind: str, row: Row) -> str:
    if kind == "does_not_compile":
        return f"does not compile: {row['error'].splitlines()[0][:200]}"
    if kind == "over_limit":
        return f"does not launch: over the limit of {row['limited_by']}"
    if kind == "spills":
        return f"spills ({row['spills']} instructions)"
    if kind == "narrow_loads":
        return f"memory-bound without 128-bit loads ({_widths(row)})"
    share = row["bytes_in_flight"] / row["bytes_in_flight_wanted"]
    return f"memory-bound with {share:.0%} of the bytes in flight that the bandwidth needs"


def _name(row: Row) -> str:
    where = f"{row['kernel']} {row['dtype']} ({row['configuration']}) on {row['target']}"
    return where + (f", launch {row['launch']}" if row["launch"] else "")


def _row(row: Row) -> str:
    kernel = row["kernel"] + (f" [{row['launch']}]" if row["launch"] else "")
    if "error" in row:
        return f"| {kernel} | {row['dtype']} | {row['configuration']} | does not compile |" + " |" * 8
    flight = row["bytes_in_flight"] / row["bytes_in_flight_wanted"]
    cells = [
        kernel, row["dtype"], row["configuration"], row["registers"], row["spills"], row["shared_bytes"],
        f"{row['occupancy']:.0%}", row["limited_by"], f"{row['vector_loads']} of {sum(row['loads'].values())}",
        row["tensor_core_instructions"], f"{flight:.0%}", f"{row['call']['bound_us']:g} µs, {row['call']['bound_by']}",
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def _widths(row: Row) -> str:
    return ", ".join(f"{count} of {bits} bits" for bits, count in row["loads"].items())
