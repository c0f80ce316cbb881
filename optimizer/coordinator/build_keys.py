"""The keys of the build cache: all that decides what a rewrite or a build leaves, and nothing else.

The upload's SHA-256 is the coordinator's own; the digest of the captured graph and weights is the capturing child's, so
that it tells apart captures of one upload and can never stand for another upload. Not in a key: runtime settings that
only the process has, and names. No torch.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from optimizer import machine
from optimizer.compiling.toolchain import toolchain_key
from optimizer.coordinator.capture import Captured
from optimizer.optimizing.identity import ROOT, pass_identity, pass_names, runner_identity
from optimizer.spec import BackendStep, PassStep, PrecisionStep, dump_step

COMPILING = ("optimizer/compiling", "kernels")
LAYOUT = 1  # of what entries hold; another one makes all of them anew


def rewrite_key(captured: Captured, passes: Sequence[PassStep] | None, matched_only: Sequence[str] = ()) -> str | None:
    """None where the capture did not say what it captured: then nothing is reused."""
    if captured.content is None:
        return None
    return _digest(
        {
            "kind": "rewrite",
            **_model(captured),
            **_passes(captured.format, passes),
            "matched_only": list(matched_only),
        }
    )


def build_key(
    captured: Captured,
    passes: Sequence[PassStep],
    precision: PrecisionStep | None,
    backend: BackendStep,
    *,
    threads: int,
    target: str,
    marked: bool = False,
) -> str | None:
    if captured.content is None:
        return None
    return _digest(
        {
            "kind": "marked" if marked else "build",
            **_model(captured),
            **_passes(captured.format, passes),
            "precision": None if precision is None else dump_step(precision),
            "backend": dump_step(backend),
            "threads": threads,
            "target": target,
            **_tools(),
        }
    )


def _model(captured: Captured) -> dict[str, Any]:
    return {
        "layout": LAYOUT,
        "upload": captured.inspection.sha256,
        "content": captured.content,
        "format": captured.format,
        "workload": captured.workload.model_dump(by_alias=True, mode="json", exclude={"name", "limits"}),
    }


def _passes(format: str, passes: Sequence[PassStep] | None) -> dict[str, Any]:
    """With the source of each, and of what runs them: a pass that was changed builds anew what it takes part in."""
    if passes is None:
        steps = [{"pass": name} for name in pass_names(format)]
    else:
        steps = [dump_step(step) for step in passes]
    if not steps:
        return {"passes": []}
    known = set(pass_names(format))
    identities = {name: pass_identity(name, format) for name in (str(step["pass"]) for step in steps) if name in known}
    return {
        "passes": None if passes is None else steps,
        "identities": identities,
        "runner": runner_identity(),
        "torch": machine.library_versions(("torch", "onnx")),
    }


@functools.cache
def _tools() -> dict[str, Any]:
    """The compilers, engines and our own code that calls them."""
    return {
        "toolchain": toolchain_key(),
        "libraries": machine.library_versions(),
        "isa": machine.cpu_isa(),
        "compiling": _folder_identity(COMPILING),
    }


def _folder_identity(folders: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for folder in folders for path in Path(ROOT / folder).rglob("*.py")):
        digest.update(path.relative_to(ROOT).as_posix().encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _digest(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
