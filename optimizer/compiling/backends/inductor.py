"""torch.compile with Inductor: compiled when called, at most once per kind of shape.

The build compiles for the sizes of the workload and hands over the compiler's cache, so that a fresh process only
traces. Refuses a model that compiles again and again over its own sizes: in service it would stall on each new one.
"""

from __future__ import annotations

import os
import shutil
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
from optimizer.compiling.base import (
    Backend,
    BackendOptions,
    Context,
    Profiled,
    end_sizes,
    register_backend,
    serving_sizes,
)
from optimizer.compiling.contender import Contender
from optimizer.compiling.engine_errors import engine_errors
from optimizer.errors import FuseworksError

ENTRY = "model.pt2"
CACHE = "inductor_cache.tar"
AUTOTUNED = {"max_autotune": True, "coordinate_descent_tuning": True}  # what the mode stands for


@register_backend
class Inductor(Backend):
    name: ClassVar[str] = "inductor"
    title: ClassVar[str] = "torch.compile"
    summary: ClassVar[str] = "Compiles the graph at its first call; needs a C++ compiler (or a GPU) where it serves."
    formats: ClassVar[frozenset[str]] = frozenset({"pt2"})
    libraries: ClassVar[tuple[str, ...]] = ("torch",)
    profiled_by: ClassVar[str] = KERNELS_RECORDED
    needs_marks: ClassVar[bool] = True

    class Options(BackendOptions):
        mode: Literal["default", "max-autotune", "max-autotune-no-cudagraphs"] = Field(
            default="default",
            description="max-autotune times several implementations of each matrix product (minutes); on a CPU there "
            "are several under freezing only, on a CUDA GPU it records kernels as cuda_graphs does.",
        )
        freezing: bool = Field(
            default=False, description="Treat weights as constants: fold and pack them when compiling."
        )
        shapes: Literal["dynamic", "static"] = Field(
            default="dynamic",
            description="One kernel for all sizes of the dynamic dimensions, or one compile per size.",
        )
        cuda_graphs: bool = Field(default=False, description="On a CUDA GPU: record the kernels once and replay them.")
        max_compiles: int = Field(
            default=8, ge=1, le=8, description="Refuse a model that compiles more often over the workload's sizes."
        )

    def unavailable(self, target: str = "cpu") -> str | None:
        return gpu_unavailable(target) or no_compiler() or no_python_headers()

    def prepare(self) -> None:
        import torch._dynamo
        import torch._inductor  # noqa: F401

    def no_profile(self, target: str = "cpu") -> str | None:
        return kernels_unrecorded(target)

    def build(self, model: Path, options: Any, context: Context, out: Path) -> dict[str, Any]:
        from torch._dynamo.exc import FailOnRecompileLimitHit

        from optimizer.compiling.inductor_setup import CACHE_VARIABLE, pack_cache

        self._refuse_cuda_graphs(options, context)
        shutil.copyfile(model, out / ENTRY)
        contender, example = self._compiled(_program(out, context), options, context)
        sizes = [
            *serving_sizes(context.workload),
            *(end_sizes(context.workload) if options.shapes == "dynamic" else []),
        ]
        before = compile_count()
        with engine_errors(self.title):
            for done, one in enumerate(sizes, 1):
                try:
                    contender.call(example(one))
                except FailOnRecompileLimitHit:
                    raise self._too_often(compile_count() - before + 1, done, options) from None
        compiles = compile_count() - before
        if compiles > options.max_compiles:
            raise self._too_often(compiles, len(sizes), options)
        pack_cache(Path(os.environ[CACHE_VARIABLE]), out / CACHE)
        return {
            "entry": ENTRY,
            "compiles": compiles,
            "sizes": sizes,
            "load": {
                "options": _inductor_options(options, context),
                "dynamic": None if options.shapes == "dynamic" else False,
                "mark_dynamic": _dynamic_dims(context) if options.shapes == "dynamic" else [],
                "cache": CACHE,
            },
        }

    def load(self, artifact: Path | None, options: Any, context: Context) -> Contender:
        if artifact is None:
            raise FuseworksError("compiling:ours:artifact", text=f"{self.title} has none to load")
        self._refuse_cuda_graphs(options, context)
        return self._loaded(artifact, options, context)

    def build_marked(self, model: Path, options: Any, context: Context, out: Path) -> None:
        """For the size that is measured only."""
        from optimizer.compiling.inductor_setup import CACHE_VARIABLE, pack_cache
        from optimizer.profiling.inductor_kernels import KERNELS, MARKS, kernels_of, listening, save

        shutil.copyfile(model, out / ENTRY)
        exported = _program(out, context)
        contender, example = self._compiled(exported, options, context, MARKS)
        with listening() as told, engine_errors(self.title):
            contender.call(example(serving_sizes(context.workload)[0]))
        save(kernels_of(told, exported), out / KERNELS)
        pack_cache(Path(os.environ[CACHE_VARIABLE]), out / CACHE)

    def profile(
        self, artifact: Path | None, options: Any, context: Context, arrays: Sequence[np.ndarray], calls: int
    ) -> Profiled:
        from optimizer.profiling.inductor_kernels import KERNELS, MARKS, read
        from optimizer.profiling.torch_operators import profile_operators

        if artifact is None:
            raise FuseworksError("compiling:ours:artifact", text=f"{self.title} has none to load")
        contender = self._loaded(artifact, options, context, MARKS)
        native = contender.stage(arrays)
        return Profiled(*profile_operators(lambda: contender.call(native), calls, read(artifact / KERNELS)))

    def _loaded(self, artifact: Path, options: Any, context: Context, more: dict[str, Any] | None = None) -> Any:
        from optimizer.compiling.inductor_setup import CACHE_VARIABLE, unpack_cache, use_plain_headers

        use_plain_headers()
        unpack_cache(artifact / CACHE, Path(os.environ[CACHE_VARIABLE]))
        contender, example = self._compiled(_program(artifact, context), options, context, more)
        with engine_errors(self.title):  # tracing belongs to loading, not to the first call
            contender.call(example(serving_sizes(context.workload)[0]))
        return contender

    def _compiled(
        self, exported: Any, options: Any, context: Context, more: dict[str, Any] | None = None
    ) -> tuple[Any, Any]:
        import torch
        import torch._dynamo.config as dynamo
        import torch._inductor.config as inductor

        from optimizer.compiling.torch_program import contender_of, example_call

        dynamo.recompile_limit = options.max_compiles + 1  # one beyond: so that the count can show what is refused
        dynamo.fail_on_recompile_limit_hit = True  # else it would go on in eager without a word
        inductor.freezing = options.freezing  # Dynamo asks for it, and does not see the options of one compile
        compiled = torch.compile(
            exported.module(),
            fullgraph=True,
            dynamic=None if options.shapes == "dynamic" else False,
            options={**_inductor_options(options, context), **(more or {})},
        )
        if _records(options, context):
            compiled = _with_own_outputs(compiled)
        dims = _dynamic_dims(context) if options.shapes == "dynamic" else []
        contender = contender_of(compiled, exported, context, prepare=lambda tensors: _mark(tensors, dims))

        def example(sizes: dict[str, int]) -> Any:
            staged = example_call(exported, context, sizes)
            _mark(staged.tensors, dims)
            return staged

        return contender, example

    def _too_often(self, compiles: int, sizes: int, options: Any) -> FuseworksError:
        allowed = options.max_compiles
        return FuseworksError(
            "compiling:user:refused",
            engine=self.title,
            text=f"it compiles {compiles} times over {sizes} sizes of the workload, and {allowed} are allowed",
            remedy="Serve fewer sizes, pad to fixed ones, or use aot_inductor, which compiles once.",
        )

    def _refuse_cuda_graphs(self, options: Any, context: Context) -> None:
        if options.cuda_graphs and context.device != "cuda":
            raise FuseworksError(
                "compiling:user:refused",
                engine=self.title,
                text=f"CUDA graphs need a CUDA GPU, and the target is {context.target}",
                remedy="Leave cuda_graphs out, or run on a worker for cuda.",
            )


def _program(folder: Path, context: Context) -> Any:
    from optimizer.compiling.torch_program import load_program, lowered

    return lowered(load_program(folder / ENTRY), context)


def compile_count() -> int:
    """Graphs that Dynamo has traced in this process: one per compile."""
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


def _records(options: Any, context: Context) -> bool:
    return bool(options.cuda_graphs) or (options.mode == "max-autotune" and context.device == "cuda")


def _inductor_options(options: Any, context: Context) -> dict[str, Any]:
    """As torch.compile takes them: a mode and options may not be given together."""
    found: dict[str, Any] = {} if options.mode == "default" else dict(AUTOTUNED)
    if options.freezing:
        found["freezing"] = True
    if _records(options, context):
        found["triton.cudagraphs"] = True
    return found


def _with_own_outputs(compiled: Any) -> Any:
    """A recorded graph answers into memory of its own, which the next call overwrites: what is handed out is a copy."""
    import torch
    from torch.utils import _pytree as pytree

    def call(*args: Any, **kwargs: Any) -> Any:
        torch.compiler.cudagraph_mark_step_begin()
        return pytree.tree_map_only(torch.Tensor, torch.clone, compiled(*args, **kwargs))

    return call


def _dynamic_dims(context: Context) -> list[list[int]]:
    """Per input: the positions of its dynamic dimensions."""
    return [[i for i, size in enumerate(spec.shape) if isinstance(size, str)] for spec in context.workload.inputs]


def _mark(tensors: list[Any], dims: list[list[int]]) -> None:
    import torch

    for tensor, dynamic in zip(tensors, dims, strict=False):
        for dim in dynamic:
            torch._dynamo.maybe_mark_dynamic(tensor, dim)
