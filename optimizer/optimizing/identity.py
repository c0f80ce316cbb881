"""What a pass is, as a digest of all source that decides what it does: its own module and its helpers, theirs too.

Read from the files and never imported, so that the coordinator, which holds no torch, can ask. Not covered: torch
and the other libraries, whose versions are part of every cache key by themselves.
"""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

import optimizer

ROOT = Path(optimizer.__file__).resolve().parent.parent
FOLDERS = {
    "pt2": "optimizer/optimizing/passes",
    "onnx": "optimizer/optimizing/onnx_passes",
    "step": "optimizer/optimizing/step_passes",
}
# What runs every pass and writes the graph down afterwards, whichever passes are asked for.
RUNNER = "optimizer/optimizing/child.py"
LIBRARY = "kernels/__init__.py", "kernels/ops"  # which loads its operations by listing their folder
HELPERS = ("optimizer.optimizing.", "optimizer.compiling.step.", "kernels.")


def pass_identity(name: str, format: str) -> str:
    """Of the pass of that name over graphs of `format`; a file's name is the name under which a pass registers."""
    return source_identity(f"{FOLDERS[format]}/{name}.py")


def pass_names(format: str) -> list[str]:
    return sorted(path.stem for path in (ROOT / FOLDERS[format]).glob("*.py") if path.stem not in {"__init__", "base"})


def runner_identity() -> str:
    return source_identity(RUNNER)


@cache
def source_identity(path: str) -> str:
    """Digest of a source file and of all helpers that it imports, directly or not. `path` is relative to the root."""
    digest = hashlib.sha256()
    for one in sorted(modules_behind(Path(ROOT / path).resolve())):
        digest.update(f"{one.relative_to(ROOT).as_posix() if one.is_relative_to(ROOT) else one.name}\n".encode())
        digest.update(hashlib.sha256(one.read_bytes()).digest())
    return digest.hexdigest()


def modules_behind(path: Path) -> set[Path]:
    """The file itself, and the helpers that importing it executes or that it may import later."""
    found, ahead = set(), {path}
    while ahead:
        one = ahead.pop()
        found.add(one)
        ahead |= _imported(one) - found
    return found


@cache
def _imported(path: Path) -> frozenset[Path]:
    """Imports within functions count: they decide what a pass does no less."""
    found = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            # what is imported from a package may be a module of it
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        found |= {file for name in names if (file := _file(name)) is not None}
    package, listed = LIBRARY
    if path == ROOT / package:
        found |= set((ROOT / listed).glob("*.py"))
    return frozenset(found)


def _file(module: str) -> Path | None:
    """The source of a helper; None of any other module, and of a name that is no module."""
    if not (module + ".").startswith(HELPERS):
        return None
    base = ROOT.joinpath(*module.split("."))
    for candidate in (base.with_suffix(".py"), base / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None
