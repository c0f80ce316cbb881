"""Puts a planted candidate to the real verifier: the float64 reference of the exported original, real contenders."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from optimizer.compiling.torch_contender import TorchContender
from optimizer.inputs import draw
from optimizer.result import Verification
from optimizer.spec import Policy, Workload
from optimizer.verifying.reference import TorchReference
from optimizer.verifying.verify import Verifier
from tests.optimizer.verifying.local import LocalChild
from tests.planted.originals import Original

Function = Callable[..., Any]


def contender(function: Function, workload: Workload) -> TorchContender:
    return TorchContender(torch.no_grad()(function), workload)


def child(function: Function, workload: Workload) -> Any:
    return LocalChild(contender(function, workload))


def export(original: Original, path: Path, module: torch.nn.Module | None = None) -> Path:
    workload = original.workload
    inputs = tuple(torch.from_numpy(a) for a in draw(workload, workload.sizes(), np.random.default_rng(0)))
    dims = {name: torch.export.Dim(name, min=dim.min, max=dim.max) for name, dim in workload.dims.items()}
    dynamic = tuple({i: dims[d] for i, d in enumerate(spec.shape) if d in dims} for spec in workload.inputs)
    with torch.no_grad():
        exported = torch.export.export(module or original.module, inputs, dynamic_shapes=dynamic if dims else None)
    torch.export.save(exported, path)
    return path


@cache
def verifier_of(name: str) -> Verifier:
    """One per original: the reference's answers are worked out once."""
    from tests.planted import originals

    original: Original = getattr(originals, name)
    with tempfile.TemporaryDirectory() as folder:
        reference: Any = LocalChild(TorchReference(export(original, Path(folder) / "captured.pt2")))
    verifier = Verifier(original.workload, Policy(), np.random.default_rng(0), reference)
    verifier.prepare(child(original.module, original.workload))
    return verifier


def verify(name: str, function: Function) -> Verification:
    verifier = verifier_of(name)
    return verifier.verify(child(function, verifier.workload))


def said(verification: Verification) -> list[str]:
    """Every reason against it."""
    rows = [f"{row.output}: {row.reason}" for row in verification.outputs if not row.passed]
    return rows + [f"{probe.name}: {probe.reason}" for probe in verification.probes if not probe.passed]
