"""What one would not want of a compiled kernel, and why, in the reader's language. Predicted, as all that was compiled.

A worker tells the cause and its figures (`kernels/aot/causes.py`); of a cause that this site does not know, its own
English words are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _

TITLES: Mapping[str, Any] = {
    "does_not_compile": _("It does not compile"),
    "over_limit": _("It does not launch: it takes more than the device has"),
    "spills": _("Registers are spilled to memory"),
    "narrow_loads": _("Memory-bound without 128-bit loads"),
    "few_bytes_in_flight": _("Memory-bound with fewer bytes in flight than bandwidth × latency"),
}
# The facts of each cause fill its text.
BECAUSE: Mapping[str, Any] = {
    "shared_memory": _("its tiles take %(needed_bytes)s bytes of shared memory of a block, %(limit_bytes)s are there"),
    "registers": _("a thread takes %(registers)s registers, %(limit)s are there"),
    "float32_products": _(
        "products in float32 are held to float32's error, so they run on the vector units, whose operands lie in "
        "registers: the tile of this configuration takes more than the %(limit)s of a thread"
    ),
    "register_limit": _("it takes more than the %(limit)s registers that a thread of %(warps)s warps may have"),
    "scalar_registers": _("scalar registers lie in lanes of vector registers: no memory is touched"),
    "assembler": _(
        "the assembler keeps %(stack_bytes)s bytes of a thread on its stack although registers are left "
        "(%(registers)s of %(limit)s)"
    ),
    "small_tile": _(
        "a thread's part of the tile is %(tile_bytes)s bytes, less than one load of 128 bits: %(elements)s elements of "
        "%(element_bytes)s bytes on %(threads)s threads"
    ),
    "single_block": _("one block adds up what the launch before it left; that is little, whatever the device"),
    "small_grid": _(
        "at this size there are %(blocks)s blocks; the device holds %(resident_blocks)s at once, which would be enough"
    ),
    "occupancy": _(
        "limited by %(limited_by)s, a multiprocessor holds %(share)s per cent of the threads that it could; all of "
        "them would be enough"
    ),
    "little_per_thread": _(
        "a thread asks for %(thread_bytes)s bytes before it waits; with every thread resident %(wanted_bytes)s are "
        "wanted"
    ),
    "untold": _("its figures do not show why"),
}


@dataclass(frozen=True)
class Place:
    """Where a cause was met. `because`: the worker's own words. `facts`: its figures."""

    dtype: str
    target: str
    configuration: str
    facts: dict[str, Any]
    because: str


@dataclass(frozen=True)
class Exceptional:
    """One cause of one launch, with every place where it was met. `reason`: what the kernel's own file says of it."""

    kind: str
    cause: str
    launch: int | None
    function: str
    reason: str
    places: list[Place]

    @property
    def title(self) -> Any:
        return TITLES.get(self.kind, self.kind)

    @property
    def told(self) -> list[tuple[Any, list[Place]]]:
        """Places that say the same put together, the most common first."""
        found: dict[str, tuple[Any, list[Place]]] = {}
        for place in self.places:
            text = self._because(place)
            found.setdefault(str(text), (text, []))[1].append(place)
        return sorted(found.values(), key=lambda pair: -len(pair[1]))

    def _because(self, place: Place) -> str:
        text = BECAUSE.get(self.cause)
        if text is None:
            return place.because
        try:
            return str(text) % place.facts
        except (KeyError, TypeError, ValueError):  # a worker of another version tells other figures
            return place.because


def exceptions_of(entries: Iterable[Mapping[str, Any]]) -> list[Exceptional]:
    """By kind, then by launch. What cannot be understood is left out."""
    found = [
        Exceptional(
            kind=_text(entry.get("kind")),
            cause=_text(entry.get("cause")),
            launch=entry["launch"] if isinstance(entry.get("launch"), int) else None,
            function=_text(entry.get("function")),
            reason=_text(entry.get("reason")),
            places=[_place(one) for one in entry.get("places") or [] if isinstance(one, dict)],
        )
        for entry in entries
    ]
    order = list(TITLES)
    return sorted(found, key=lambda one: (order.index(one.kind) if one.kind in order else len(order), one.launch or 0))


def _place(entry: Mapping[str, Any]) -> Place:
    facts = entry.get("facts")
    return Place(
        dtype=_text(entry.get("dtype")),
        target=_text(entry.get("target")),
        configuration=_text(entry.get("configuration")),
        facts=facts if isinstance(facts, dict) else {},
        because=_text(entry.get("because")),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
