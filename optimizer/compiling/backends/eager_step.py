"""A training step as PyTorch runs it, operation by operation: the baseline of every training workload.

Given the upload and its weights it trains the user's own module with `torch.optim` as it is by default; else it runs
the captured step, as the passes left it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from optimizer.compiling.availability import gpu_unavailable
from optimizer.compiling.base import Backend, Context, Profiled, register_backend
from optimizer.compiling.contender import Contender


@register_backend
class EagerStep(Backend):
    name: ClassVar[str] = "eager_step"
    title: ClassVar[str] = "PyTorch eager training step"
    summary: ClassVar[str] = "Forward, loss, backward and update operation by operation; nothing is compiled."
    formats: ClassVar[frozenset[str]] = frozenset({"step"})
    libraries: ClassVar[tuple[str, ...]] = ("torch",)
    profiled_by: ClassVar[str] = (
        "torch's profiler recorded a step of the captured graph, whose forward was run node by node; backward is told "
        "by the nodes that it is of."
    )

    def unavailable(self, target: str = "cpu") -> str | None:
        return gpu_unavailable(target) or no_step_there(target)

    def no_profile(self, target: str = "cpu") -> str | None:
        return None if target == "cpu" else "the operations of a step are recorded on a CPU only"

    def prepare(self) -> None:
        import torch  # noqa: F401

    def build(self, model: Path, options: Any, context: Context, out: Path) -> dict[str, Any]:
        """Nothing to compile: the step is run as it was rewritten."""
        return {}

    def load(self, artifact: Path | None, options: Any, context: Context) -> Contender:
        from optimizer.compiling.step.loading import as_graph, as_uploaded

        return as_graph(context) if context.upload is None else as_uploaded(context)

    def profile(
        self, artifact: Path | None, options: Any, context: Context, arrays: Sequence[np.ndarray], calls: int
    ) -> Profiled:
        """The captured step also where the user's own module is what trains: only its nodes know modules and lines."""
        from optimizer.compiling.step.loading import as_graph
        from optimizer.profiling.training_step import profile_step

        contender = as_graph(context)
        return profile_step(contender.step, contender.stage(arrays), calls)


def no_step_there(target: str) -> str | None:
    if target == "cpu":
        return None
    return f"training steps are not measured on {target} yet: choose the target cpu"
