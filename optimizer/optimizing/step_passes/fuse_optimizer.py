"""Applies the optimizer to all parameters in one pass over memory each, instead of one pass for each of its operations.

`fused` is one kernel a parameter; `foreach` one call an operation, for all parameters at once. Refuses parameters that
no fused kernel takes: such a step keeps the loop.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import fx

from optimizer.compiling.step.runtime import Design
from optimizer.optimizing.step_passes.base import PassOptions, StepPass, StepReport, register_step_pass

FUSED_DTYPES = frozenset({torch.float32, torch.float64, torch.bfloat16, torch.float16})


@register_step_pass
class FuseOptimizer(StepPass):
    name: ClassVar[str] = "fuse_optimizer"
    title: ClassVar[str] = "Fuse the optimizer's update"
    summary: ClassVar[str] = "Updates each parameter in one pass over memory (torch.optim's fused or foreach form)."
    numerics: ClassVar[Literal["exact", "reassociates"]] = "reassociates"
    order: ClassVar[int] = 20

    class Options(PassOptions):
        implementation: Literal["fused", "foreach"] = Field(
            default="fused", description="fused: one kernel a parameter; foreach: one call an operation."
        )

    def apply(self, graph: fx.GraphModule, design: Design, options: Any, report: StepReport) -> None:
        dense = [name for name in design["parameters"] if name not in design["rows"]]
        odd = [name for name in dense if graph.get_parameter(name).dtype not in FUSED_DTYPES]
        for name in odd:
            report.refused(name, f"no fused update takes {str(graph.get_parameter(name).dtype).removeprefix('torch.')}")
        if odd or not dense:
            if not dense:
                report.refused("optimizer", "every parameter is updated by rows: nothing is left to fuse")
            return
        design["update"] = options.implementation
        name = design["optimizer"]["name"]
        report.applied("optimizer", f"{name}: the update of {len(dense)} parameters is {options.implementation}")
