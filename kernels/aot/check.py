"""Whether kernels became worse than the kept report says: new spills, lost vector loads, more than the device has.

A new kernel has nothing to be compared with: it must fit the device and must not spill, or be taken into the report
knowingly (`make aot`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from kernels import KERNELS
from kernels.aot.report import Request, Row, place_of, requests, rows_of


def regressions(old: Row | None, new: Row) -> Iterator[str]:
    """What is worse in `new`, in words."""
    if "error" in new:
        if old is None or "error" not in old:
            yield f"does not compile: {new['error'].splitlines()[0]}"
        return
    if new["blocks_per_sm"] == 0 and (old is None or old.get("blocks_per_sm", 0) > 0):
        yield (
            f"does not launch, over the limit of {new['limited_by']}: {new['shared_bytes']} bytes of shared memory of "
            f"{new['shared_limit_bytes']}, {new['registers']} registers, {new['warps']} warps"
        )
    before = 0 if old is None else old.get("spills", 0)
    if new["spills"] > before:
        yield f"spills: {new['spills']} instructions, before {before}"
    if old is None or "error" in old:
        return
    if new["vector_loads"] < old["vector_loads"] and _wide_share(new) < _wide_share(old):
        yield f"lost 128-bit loads: {new['loads']} by width in bits, before {old['loads']}"
    if new["tensor_core_instructions"] == 0 and old["tensor_core_instructions"] > 0:
        yield "uses tensor cores no more"


def _wide_share(row: Row) -> float:
    """Of the bytes that its loads ask for, those in 128 bits and more."""
    asked = {int(bits): int(bits) * count for bits, count in row["loads"].items()}
    return sum(bits for width, bits in asked.items() if width >= 128) / (sum(asked.values()) or 1)


def check(kept: dict[str, Any], names: Collection[str] | None = None, *, changed: bool = False) -> Iterator[str]:
    """Each regression in a line. `changed`: what the compiler sees as it was is not compiled again.

    Told as well: rows that the report lacks, and rows of what is there no more: the report is not of this source.
    """
    old = {place_of(row): row for row in kept["rows"]}
    seen = set()
    for name in KERNELS.names() if names is None else names:
        asked = list(requests([name]))
        seen |= {one.place for one in asked}
        stale = [one for one in asked if one.place not in old or old[one.place]["key"] != one.key]
        compiled = stale if changed else asked
        for request, row in zip(compiled, rows_of(compiled), strict=True):
            for text in regressions(old.get(request.place), row):
                yield f"{_where(request)}: {text}"
        for request in stale:
            known = "was changed since the report" if request.place in old else "is not in the report"
            yield f"{_where(request)}: {known} (make aot)"
    for place in old:
        if place not in seen and (names is None or place[0] in names):
            yield f"{' '.join(map(str, place[:4]))}: is in the report and there no more (make aot)"


def _where(request: Request) -> str:
    return " ".join(map(str, request.place[:4])) + (f" launch {request.launch}" if request.launch else "")
