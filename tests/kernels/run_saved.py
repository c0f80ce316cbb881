"""Loads `fused.pt2` of a folder and runs it on `x.pt` into `y.pt`: the kernels are known only by `load()`."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import kernels

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    kernels.load()
    program = torch.export.load(folder / "fused.pt2")
    assert any(str(n.target) == "fuseworks.add_rms_norm.default" for n in program.graph.nodes)
    with torch.no_grad():
        torch.save(program.module()(torch.load(folder / "x.pt")), folder / "y.pt")
