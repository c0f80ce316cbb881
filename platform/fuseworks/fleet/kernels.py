"""The library of fused kernels as workers tell it: the web process cannot import it.

Of the worker that was started last and told any: all workers of one release tell the same. One of another version may
tell more, less, or it otherwise: what cannot be understood is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import F

from fuseworks.fleet.kernel_evidence import Matrix, Measured, matrix_of, measured_of
from fuseworks.fleet.kernel_exceptions import Exceptional, exceptions_of
from fuseworks.fleet.models import Worker


@dataclass(frozen=True)
class Cost:
    """The least that one call moves and computes, at the arguments that `sample` names."""

    dtype: str
    sample: str
    bytes: int | None
    flops: int | None


@dataclass(frozen=True)
class Tolerance:
    """Allowed error of an element: absolute + relative × |reference|."""

    dtype: str
    absolute: float | None
    relative: float | None


@dataclass(frozen=True)
class Compiled:
    """One launch of the untuned configuration, compiled for a target that need not be there: predicted. Figures are
    None where it does not compile; `exceptions` then says so, and else what one would not want of it."""

    dtype: str
    target: str
    device: str
    configuration: str
    launch: int | None
    registers: int | None
    spills: int | None
    shared_bytes: int | None
    occupancy: float | None
    limited_by: str
    vector_loads: int | None
    loads: int | None
    tensor_core_instructions: int | None
    bound_us: float | None
    bound_by: str
    exceptions: list[str]

    @property
    def runs(self) -> bool:
        """Whether it compiles, and a block of it fits on a multiprocessor."""
        return self.registers is not None and self.occupancy != 0


@dataclass(frozen=True)
class Support:
    """One dtype: the allowed error, and for each target that was compiled for whether every launch runs there."""

    dtype: str
    tolerance: Tolerance | None
    targets: list[bool | None]


@dataclass(frozen=True)
class Kernel:
    """`summary` is the first paragraph of its own text, `formula` the rest but `source` and `not_for`."""

    name: str
    operation: str
    schema: str
    summary: str
    formula: str
    source: str
    not_for: str
    dtypes: list[str]
    targets: list[str]
    patterns: list[str]
    configurations: list[str]
    differentiable: bool
    tolerances: list[Tolerance]
    costs: list[Cost]
    compiled: list[Compiled]
    explained: list[Exceptional]
    correctness: Matrix | None
    measured: list[Measured]

    @property
    def exceptions(self) -> int:
        """Compiled launches with something that one would not want."""
        return sum(bool(one.exceptions) for one in self.compiled)

    @property
    def compiled_for(self) -> list[str]:
        return list(dict.fromkeys(one.target for one in self.compiled))

    @property
    def support(self) -> list[Support]:
        tolerances = {one.dtype: one for one in self.tolerances}
        return [
            Support(dtype, tolerances.get(dtype), [self._runs(dtype, target) for target in self.compiled_for])
            for dtype in self.dtypes
        ]

    def _runs(self, dtype: str, target: str) -> bool | None:
        """None where it was not compiled."""
        found = [one.runs for one in self.compiled if (one.dtype, one.target) == (dtype, target)]
        return all(found) if found else None


def library() -> list[Kernel]:
    """By name; empty where no worker told any."""
    told = Worker.objects.filter(manifest__kernels__0__name__isnull=False).order_by(F("started_at").desc(), "name")
    found = told.values_list("manifest__kernels", "manifest__kernels_compiled_for").first()
    if found is None:
        return []
    devices = found[1] if isinstance(found[1], dict) else {}
    entries = [one for one in _dictionaries(found[0]) if isinstance(one.get("name"), str)]
    return sorted((_kernel(entry, devices) for entry in entries), key=lambda kernel: kernel.name)


def _kernel(entry: dict[str, Any], devices: dict[str, Any]) -> Kernel:
    summary, formula, source, not_for = read_text(_text(entry.get("formula")))
    tolerances = entry.get("tolerances")
    return Kernel(
        name=entry["name"],
        operation=_text(entry.get("operation")),
        schema=_text(entry.get("schema")),
        summary=summary,
        formula=formula,
        source=source,
        not_for=not_for,
        dtypes=_texts(entry.get("dtypes")),
        targets=_texts(entry.get("targets")),
        patterns=_texts(entry.get("patterns")),
        configurations=_texts(entry.get("configurations")),
        differentiable=entry.get("differentiable") is True,
        tolerances=[
            Tolerance(dtype, _number(one.get("absolute")), _number(one.get("relative")))
            for dtype, one in sorted((tolerances if isinstance(tolerances, dict) else {}).items())
            if isinstance(one, dict)
        ],
        costs=[
            Cost(_text(one.get("dtype")), _text(one.get("sample")), _whole(one.get("bytes")), _whole(one.get("flops")))
            for one in _dictionaries(entry.get("cost"))
        ],
        compiled=[_compiled(one, devices) for one in _dictionaries(entry.get("resources"))],
        explained=exceptions_of(_dictionaries(entry.get("exceptions"))),
        correctness=matrix_of(entry.get("correctness")),
        measured=measured_of(entry.get("measured")),
    )


def _compiled(entry: dict[str, Any], devices: dict[str, Any]) -> Compiled:
    target = _text(entry.get("target"))
    return Compiled(
        dtype=_text(entry.get("dtype")),
        target=target,
        device=_text(devices.get(target)),
        configuration=_text(entry.get("configuration")),
        launch=_whole(entry.get("launch")),
        registers=_whole(entry.get("registers")),
        spills=_whole(entry.get("spills")),
        shared_bytes=_whole(entry.get("shared_bytes")),
        occupancy=_number(entry.get("occupancy")),
        limited_by=_text(entry.get("limited_by")),
        vector_loads=_whole(entry.get("vector_loads")),
        loads=_whole(entry.get("loads")),
        tensor_core_instructions=_whole(entry.get("tensor_core_instructions")),
        bound_us=_number(entry.get("bound_us")),
        bound_by=_text(entry.get("bound_by")),
        exceptions=_texts(entry.get("exceptions")),
    )


def read_text(text: str) -> tuple[str, str, str, str]:
    """A kernel's own text: its first paragraph, the rest, its sources, and what it is not for."""
    first, _, rest = text.strip().partition("\n\n")
    parts: dict[str, list[str]] = {"": [], "Source": [], "Not for": []}
    here = ""
    for line in rest.splitlines():
        key, colon, after = line.partition(": ")
        if colon and key in ("Source", "Sources", "Not for"):
            here, line = key.removesuffix("s"), after
        parts[here].append(line)
    formula = "\n".join(parts[""]).strip("\n").rstrip()
    source, not_for = (" ".join(" ".join(parts[name]).split()) for name in ("Source", "Not for"))
    return " ".join(first.split()), formula, source, not_for


def _dictionaries(value: Any) -> Iterable[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _texts(value: Any) -> list[str]:
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
