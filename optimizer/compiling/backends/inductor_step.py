"""A training step through torch.compile: forward and backward as one compiled graph each, the optimizer too if asked.

Both are what PyTorch's documentation shows. The build runs steps of the workload's size and hands over the compiler's
cache, so that a fresh process only traces. Not for steps whose sizes vary: one size is compiled.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from optimizer.compiling.availability import (
    KERNELS_RECORDED,
    gpu_unavailable,
    kernels_unrecorded,
    no_compiler,
    no_python_headers,
)
from optimizer.compiling.backends.eager_step import no_step_there
from optimizer.compiling.base import Backend, BackendOptions, Context, Profiled, plain_inputs, register_backend
from optimizer.compiling.contender import Contender
from optimizer.compiling.engine_errors import engine_errors
from optimizer.errors import FuseworksError

CACHE = "inductor_cache.tar"
STEPS = 2  # the first step makes the optimizer's state, and may be compiled apart from the others


@register_backend
class InductorStep(Backend):
    name: ClassVar[str] = "inductor_step"
    title: ClassVar[str] = "torch.compile of a training step"
    summary: ClassVar[str] = "Compiles forward and backward at the first step; needs a C++ compiler where it trains."
    formats: ClassVar[frozenset[str]] = frozenset({"step"})
    libraries: ClassVar[tuple[str, ...]] = ("torch",)
    profiled_by: ClassVar[str] = KERNELS_RECORDED
    needs_marks: ClassVar[bool] = True

    class Options(BackendOptions):
        optimizer: Literal["eager", "compiled"] = Field(
            default="eager", description="Whether the optimizer's step goes through torch.compile as well."
        )

    def unavailable(self, target: str = "cpu") -> str | None:
        return gpu_unavailable(target) or no_step_there(target) or no_compiler() or no_python_headers()

    def no_profile(self, target: str = "cpu") -> str | None:
        return kernels_unrecorded(target)

    def prepare(self) -> None:
        import torch._dynamo
        import torch._inductor  # noqa: F401

    def build(self, model: Path, options: Any, context: Context, out: Path) -> dict[str, Any]:
        from optimizer.compiling.inductor_setup import CACHE_VARIABLE, pack_cache

        self._run(options, context)
        pack_cache(Path(os.environ[CACHE_VARIABLE]), out / CACHE)
        return {"load": {"cache": CACHE}}

    def build_marked(self, model: Path, options: Any, context: Context, out: Path) -> None:
        from optimizer.compiling.inductor_setup import CACHE_VARIABLE, pack_cache
        from optimizer.profiling.inductor_kernels import MARKS

        self._run(options, context, MARKS)
        pack_cache(Path(os.environ[CACHE_VARIABLE]), out / CACHE)

    def load(self, artifact: Path | None, options: Any, context: Context) -> Contender:
        return self._loaded(artifact, options, context)

    def profile(
        self, artifact: Path | None, options: Any, context: Context, arrays: Sequence[np.ndarray], calls: int
    ) -> Profiled:
        from optimizer.profiling.inductor_kernels import MARKS
        from optimizer.profiling.torch_operators import profile_operators

        contender = self._loaded(artifact, options, context, MARKS)
        native = contender.stage(arrays)
        return Profiled(*profile_operators(lambda: contender.call(native), calls))

    def _loaded(self, artifact: Path | None, options: Any, context: Context, more: dict[str, Any] | None = None) -> Any:
        from optimizer.compiling.inductor_setup import CACHE_VARIABLE, unpack_cache, use_plain_headers

        if artifact is None:
            raise FuseworksError("compiling:ours:artifact", text=f"{self.title} has none to load")
        use_plain_headers()
        unpack_cache(artifact / CACHE, Path(os.environ[CACHE_VARIABLE]))
        return self._run(options, context, more)

    def _run(self, options: Any, context: Context, more: dict[str, Any] | None = None) -> Any:
        """Ready, and back where it began: tracing and compiling belong to loading, not to the first call."""
        from optimizer.compiling.step.loading import as_graph

        optimizer = options.optimizer == "compiled"
        contender = as_graph(context, compiled=True, compiled_optimizer=optimizer, options=more)
        native = contender.stage(plain_inputs(context.workload, context.workload.sizes()))
        with engine_errors(self.title):
            for _ in range(STEPS):
                contender.call(native)
        contender.reset()
        return contender
