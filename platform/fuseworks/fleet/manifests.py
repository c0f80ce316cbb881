"""A worker's manifest as the fleet page shows it. A worker of another version may say more, less, or it otherwise: what
cannot be understood is left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LONG = ("resources", "cost", "exceptions", "correctness", "measured")


@dataclass(frozen=True)
class Item:
    """One pass, kernel or backend. `unavailable` is why a backend cannot be used on that machine."""

    name: str
    summary: str = ""
    unavailable: str = ""


@dataclass(frozen=True)
class Device:
    target: str
    name: str
    memory_bytes: int | None
    cores: int | None


@dataclass(frozen=True)
class Manifest:
    devices: list[Device]
    backends: list[Item]
    passes: list[Item]
    kernels: list[Item]
    predicts: list[str]
    libraries: list[tuple[str, str]]

    @classmethod
    def of(cls, document: dict[str, Any]) -> Manifest:
        libraries, told = document.get("libraries"), document.get("predicts")
        return cls(
            devices=[_device(entry) for entry in _dictionaries(document.get("devices"))],
            backends=_items(document.get("backends"), "summary"),
            passes=[
                found
                for kind in ("passes", "onnx_passes", "step_passes")
                for found in _items(document.get(kind), "summary")
            ],
            kernels=_items(document.get("kernels"), "formula"),
            predicts=[one for one in told if isinstance(one, str)] if isinstance(told, list) else [],
            libraries=sorted((str(k), str(v)) for k, v in libraries.items()) if isinstance(libraries, dict) else [],
        )

    def __bool__(self) -> bool:
        return bool(self.devices or self.backends or self.passes or self.kernels)


def in_short(document: dict[str, Any]) -> dict[str, Any]:
    """Without what of each kernel is told at `kernels/`, which makes most of it."""
    kernels = document.get("kernels")
    if not isinstance(kernels, list):
        return document
    short = [{k: v for k, v in one.items() if k not in LONG} if isinstance(one, dict) else one for one in kernels]
    return {**document, "kernels": short}


def _dictionaries(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _items(value: Any, summary: str) -> list[Item]:
    named = [entry for entry in _dictionaries(value) if isinstance(entry.get("name"), str)]
    return [Item(e["name"], str(e.get(summary) or ""), str(e.get("unavailable") or "")) for e in named]


def _device(entry: dict[str, Any]) -> Device:
    cores = entry.get("cores") or entry.get("processors")
    memory = entry.get("memory_bytes")
    return Device(
        target=str(entry.get("target") or ""),
        name=str(entry.get("name") or ""),
        memory_bytes=memory if isinstance(memory, int) else None,
        cores=cores if isinstance(cores, int) else None,
    )
