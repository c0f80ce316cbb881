"""Runs the Triton kernels under Triton's interpreter in a process of its own; prints one JSON line per case.

The interpreter must be chosen before triton is imported, so tests start this file with TRITON_INTERPRET=1. Each kernel
runs in each configuration, dtype and sample (`kernels/checking.py`).
"""

from __future__ import annotations

import importlib
import json
import sys

import torch

import kernels
from kernels import rows
from kernels.checking import Case, cases, check, intact, padded
from kernels.spec import jit
from tests.kernels import interpreter_errors


def line(case: Case) -> dict[str, object]:
    outcome = check(case)
    return {
        "kernel": case.kernel.name,
        "dtype": str(case.dtype),
        "sample": case.sample.name,
        "configuration": case.configuration.name,
        "fault": outcome.fault,
        "seconds": outcome.seconds,
    }


def control() -> dict[str, object]:
    """The negative control: told of one row too many, a kernel writes past its outputs, and canaries must say so."""
    module = importlib.import_module("kernels.ops.add_rms_norm")
    x = torch.ones(2, 8)
    outputs = [padded(x), padded(x)]
    tile = rows.tile(8)
    sizes = {"ROWS": tile.rows, "COLUMNS": tile.columns, "WHOLE": True}
    jit(module._kernel)[(1,)](x, x, x, outputs[0][0], outputs[1][0], 3, 8, 1e-6, HAS_WEIGHT=False, **sizes)
    return {"kernel": "control", "canaries_intact": all(intact(b) for _, b in outputs)}


def main(chosen: list[str]) -> None:
    """`chosen`: only these kernels; none: all."""
    torch.set_num_threads(1)
    print(json.dumps(interpreter_errors.report()))  # installs the corrections
    kernels.load()
    for kernel in kernels.KERNELS:
        if chosen and kernel.name not in chosen:
            continue
        for case in cases(kernel):
            print(json.dumps(line(case)))
    print(json.dumps(control()))


if __name__ == "__main__":
    main(sys.argv[1:])
