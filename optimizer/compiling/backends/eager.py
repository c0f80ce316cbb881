"""The model as PyTorch runs it, operation by operation: the baseline of every PyTorch upload.

Given the upload and its weights it builds the user's own module; else it runs the captured or rewritten graph.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from optimizer.compiling.availability import gpu_unavailable
from optimizer.compiling.base import Backend, Context, register_backend
from optimizer.compiling.contender import Contender

ENTRY = "model.pt2"


@register_backend
class Eager(Backend):
    name: ClassVar[str] = "eager"
    title: ClassVar[str] = "PyTorch eager"
    summary: ClassVar[str] = "Runs the graph operation by operation; nothing is compiled."
    formats: ClassVar[frozenset[str]] = frozenset({"pt2"})
    libraries: ClassVar[tuple[str, ...]] = ("torch",)

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

        built = artifact / ENTRY if artifact is not None and (artifact / ENTRY).exists() else None
        if built is None and context.upload is not None and context.upload_format in {"py", "zip"}:
            from optimizer.capturing.torch_module import load_module

            user = load_module(context.upload, context.upload_format, context.scratch, context.seed, context.weights)
            module = user.module.to(context.device)
            return TorchContender(module, context.workload, context.device, context.precision_name)
        exported = lowered(load_program(built or context.model), context)
        return contender_of(exported.module(), exported, context)
