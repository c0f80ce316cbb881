"""The float64 reference of a training step: the captured step's graph rewritten, its optimizer as PyTorch has it.

The same rewriting as for inference (`verifying/reference.py`), so that no constant and no cast stays in float32;
autograd then differentiates the rewritten graph.
"""

from __future__ import annotations

from pathlib import Path

import torch

from optimizer.compiling.step.contender import StepContender
from optimizer.compiling.step.runtime import Step, design_of, load_graph
from optimizer.spec import Workload
from optimizer.verifying.reference import in_float64


class StepReference(StepContender):
    """Raises FuseworksError (`verifying:user:no-reference`) where the graph has no float64 form."""

    def __init__(self, path: Path, workload: Workload) -> None:
        torch.set_grad_enabled(True)
        super().__init__(Step(in_float64(load_graph(path)), design_of(path)), workload, dtype=torch.float64)

    def call(self, native: list[torch.Tensor]) -> torch.Tensor:
        # integers divided, or multiplied by a number, take the default dtype
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            return super().call(native)
        finally:
            torch.set_default_dtype(before)
