"""The model as PyTorch runs it, operation by operation: the baseline of every PyTorch upload.

Given the upload and its weights it builds the user's own module; else it runs the captured or rewritten graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from optimizer.compiling.availability import gpu_unavailable
from optimizer.compiling.base import Backend, Context, Profiled, register_backend
from optimizer.compiling.contender import Contender

ENTRY = "model.pt2"


@register_backend
class Eager(Backend):
    name: ClassVar[str] = "eager"
    title: ClassVar[str] = "PyTorch eager"
    summary: ClassVar[str] = "Runs the graph operation by operation; nothing is compiled."
    formats: ClassVar[frozenset[str]] = frozenset({"pt2"})
    libraries: ClassVar[tuple[str, ...]] = ("torch",)
    profiled_by: ClassVar[str] = "The graph was run node by node, with a clock around each node."

    def unavailable(self, target: str = "cpu") -> str | None:
        return gpu_unavailable(target)

    def prepare(self) -> None:
        import torch  # noqa: F401

    def build(self, model: Path, options: Any, context: Context, out: Path) -> dict[str, Any]:
        """Nothing to compile: an artifact is left only where what runs is not the model that loading is given.

        That is a model in another precision, and one whose fused operations are lowered: a package must do without us.
        """
        import torch

        from optimizer.compiling.torch_program import load_program, lowered

        exported = load_program(model)
        runs = lowered(exported, context)
        if runs is not exported and context.device == "cpu":
            torch.export.save(runs, out / ENTRY)
            return {"entry": ENTRY}
        if model != context.model:
            model.rename(out / ENTRY)
            return {"entry": ENTRY}
        return {}

    def load(self, artifact: Path | None, options: Any, context: Context) -> Contender:
        from optimizer.compiling.torch_contender import TorchContender
        from optimizer.compiling.torch_program import contender_of, load_program, lowered

        built = _built(artifact)
        if built is None and context.upload is not None and context.upload_format in {"py", "zip"}:
            from optimizer.capturing.torch_module import load_module

            user = load_module(context.upload, context.upload_format, context.scratch, context.seed, context.weights)
            module = user.module.to(context.device)
            return TorchContender(module, context.workload, context.device, context.precision_name)
        exported = lowered(load_program(built or context.model), context)
        return contender_of(exported.module(), exported, context)

    def profile(
        self, artifact: Path | None, options: Any, context: Context, arrays: Sequence[np.ndarray], calls: int
    ) -> Profiled:
        """The graph also where the user's own module is what runs: only its nodes know modules and lines."""
        from optimizer.compiling.torch_program import contender_of, load_program, lowered
        from optimizer.profiling.memory import memory_of_graph
        from optimizer.profiling.torch_graph import profile_graph

        exported = lowered(load_program(_built(artifact) or context.model), context)
        module: Any = exported.module().to(context.device)
        tensors = contender_of(module, exported, context).stage(arrays).tensors
        rows, call_ms = profile_graph(module, tensors, calls, context.device)
        if context.device != "cpu":  # a GPU's allocator tells of its own memory by other means
            return Profiled(rows, call_ms)
        memory, timeline = memory_of_graph(module, tensors)
        return Profiled(rows, call_ms, memory, timeline=timeline)


def _built(artifact: Path | None) -> Path | None:
    return artifact / ENTRY if artifact is not None and (artifact / ENTRY).exists() else None
