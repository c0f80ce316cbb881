"""Which model files a suite has: those that were named, and those below folders that were."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

SUFFIXES = frozenset({".py", ".zip", ".pt2", ".onnx"})
MODEL = re.compile(r"\bModel\b")


class Found(NamedTuple):
    """`label` tells it from the suite's other models, and is what the report calls it."""

    label: str
    path: Path
    sha256: str

    def folder(self, number: int) -> str:
        """Of its `number`th run, in the suite's folder: unlike for unlike models and contents."""
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", self.label).strip(".-")[-60:]
        told = hashlib.sha256(self.label.encode()).hexdigest()[:6]
        return f"{plain}-{told}-{self.sha256[:12]}-{number}"


class Suite(NamedTuple):
    """`left_out`: files of the folders that are Python, but no models."""

    models: list[Found]
    left_out: list[str]


def find(given: Sequence[Path], out: Path) -> Suite:
    """Named files as they come, those of a folder by their names, each once. What lies below `out` is no model but a
    suite's own."""
    chosen: dict[Path, str] = {}
    left_out: list[str] = []
    for path in given:
        if path.is_file():
            chosen.setdefault(path.absolute(), path.name)
            continue
        for file in _below(path, out.absolute()):
            label = file.relative_to(path.absolute()).as_posix()
            if file.suffix == ".py" and not _is_model(file):
                left_out.append(label)
            else:
                chosen.setdefault(file, label)
    often = Counter(chosen.values())
    models = [
        Found(label if often[label] == 1 else path.as_posix(), path, hashlib.sha256(path.read_bytes()).hexdigest())
        for path, label in chosen.items()
    ]
    return Suite(models, left_out)


def _below(folder: Path, out: Path) -> Iterator[Path]:
    for file in sorted(folder.absolute().rglob("*")):
        inside = file.relative_to(folder.absolute()).parts
        hidden = any(part.startswith(".") or part == "__pycache__" for part in inside)
        if file.suffix in SUFFIXES and file.is_file() and not hidden and out not in file.parents:
            yield file


def _is_model(file: Path) -> bool:
    """By KernelBench's convention. Only files that nobody named are asked: a named one shall fail with its reason."""
    text = file.read_text(encoding="utf-8", errors="replace")
    return bool(MODEL.search(text)) and "get_inputs" in text
