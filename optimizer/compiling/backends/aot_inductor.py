"""torch compiled ahead of time into one package (AOTInductor): no tracing and no compiler where it serves.

Refuses a package built for another processor. It checks no input shapes itself: the package's contract does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from optimizer import machine
from optimizer.compiling.availability import KERNELS_RECORDED, gpu_unavailable, kernels_unrecorded, no_compiler
from optimizer.compiling.base import Backend, BackendOptions, Context, Profiled, register_backend
from optimizer.compiling.contender import Contender
from optimizer.compiling.engine_errors import engine_errors
from optimizer.errors import FuseworksError

ENTRY = "model.pt2"
# What the metadata calls an ISA, in the flags of /proc/cpuinfo that code compiled for it uses.
ISA_FLAGS = {
    "AVX2": {"avx2", "fma", "f16c"},
    "AVX512": {"avx512f", "avx512dq", "avx512vl", "avx512bw", "fma"},
    "AVX512_VNNI": {"avx512_vnni"},
    "AMX_TILE": {"amx_tile", "amx_bf16", "amx_int8"},
    "ASIMD": {"asimd"},
}


@register_backend
class AotInductor(Backend):
    name: ClassVar[str] = "aot_inductor"
    title: ClassVar[str] = "PyTorch AOTInductor"
    summary: ClassVar[str] = "Compiles the graph ahead of time to one package that loads in milliseconds."
    formats: ClassVar[frozenset[str]] = frozenset({"pt2"})
    libraries: ClassVar[tuple[str, ...]] = ("torch",)
    profiled_by: ClassVar[str] = KERNELS_RECORDED
    needs_marks: ClassVar[bool] = True

    class Options(BackendOptions):
        freezing: bool = Field(
            default=True, description="Treat weights as constants: fold and pack them when compiling."
        )
        max_autotune: bool = Field(
            default=False, description="Time several implementations of each matrix product while compiling (minutes)."
        )
        gemm: Literal["onednn", "blas"] = Field(
            default="onednn",
            description="Matrix products on a CPU: oneDNN's with packed weights, or torch's own BLAS (MKL on x86).",
        )

    def unavailable(self, target: str = "cpu") -> str | None:
        return gpu_unavailable(target) or no_compiler()

    def prepare(self) -> None:
        import torch  # noqa: F401

    def no_profile(self, target: str = "cpu") -> str | None:
        return kernels_unrecorded(target)

    def build(self, model: Path, options: Any, context: Context, out: Path) -> dict[str, Any]:
        self._compile(self._program(model, options, context), options, out)
        metadata = _metadata(out / ENTRY)
        return {"entry": ENTRY, "built_for": metadata, "isa": sorted(_flags(metadata))}

    def build_marked(self, model: Path, options: Any, context: Context, out: Path) -> None:
        from optimizer.profiling.inductor_kernels import KERNELS, MARKS, kernels_of, listening, save

        exported = self._program(model, options, context)
        with listening() as told:
            self._compile(exported, options, out, MARKS)
        save(kernels_of(told, exported), out / KERNELS)

    def _program(self, model: Path, options: Any, context: Context) -> Any:
        """What is compiled."""
        from optimizer.compiling.torch_program import load_program, lowered

        return lowered(load_program(model), context)

    def _compile(self, exported: Any, options: Any, out: Path, more: dict[str, Any] | None = None) -> None:
        import torch

        configs = {"freezing": options.freezing, "max_autotune": options.max_autotune, **(more or {})}
        # with oneDNN switched off while it compiles, Inductor leaves products to torch's own addmm
        library = torch.backends.mkldnn.flags(enabled=options.gemm == "onednn")
        with engine_errors(self.title), torch.no_grad(), library:
            torch._inductor.aoti_compile_and_package(
                exported, package_path=str(out / ENTRY), inductor_configs={k: v for k, v in configs.items() if v}
            )

    def profile(
        self, artifact: Path | None, options: Any, context: Context, arrays: Sequence[np.ndarray], calls: int
    ) -> Profiled:
        from optimizer.profiling.inductor_kernels import KERNELS, read
        from optimizer.profiling.torch_operators import profile_operators

        contender = self.load(artifact, options, context)
        assert artifact is not None
        native = contender.stage(arrays)
        return Profiled(*profile_operators(lambda: contender.call(native), calls, read(artifact / KERNELS)))

    def load(self, artifact: Path | None, options: Any, context: Context) -> Contender:
        from torch._C import _aoti

        from optimizer.compiling.torch_contender import TorchContender

        if artifact is None:
            raise FuseworksError("compiling:ours:artifact", text=f"{self.title} has none to load")
        package = artifact / ENTRY
        _refuse_other_machine(_metadata(package), context)
        # The loader itself: torch._inductor.aoti_load_package first spends seconds on probing the compiler for the ISA.
        loader = _aoti.AOTIModelPackageLoader(str(package), "model", False, 1, -1)

        def call(*tensors: Any) -> Any:
            return loader.boxed_run(list(tensors))  # it empties the list that it is given

        return TorchContender(call, context.workload, context.device, context.precision_name)


def _metadata(package: Path) -> dict[str, str]:
    from torch._C import _aoti

    loader: Any = _aoti.AOTIModelPackageLoader  # torch's stubs leave this method out
    try:
        found: dict[str, str] = dict(loader.load_metadata_from_package(str(package), "model"))
    except RuntimeError as error:
        raise FuseworksError("compiling:ours:artifact", text=str(error)[:1000]) from error
    return {key.removeprefix("AOTI_").lower(): value for key, value in found.items() if key.startswith("AOTI_")}


def _flags(metadata: dict[str, str]) -> set[str]:
    return set().union(*(ISA_FLAGS.get(name, set()) for name in metadata.get("cpu_isa", "").split()))


def _refuse_other_machine(metadata: dict[str, str], context: Context) -> None:
    """The check that the raw loader leaves out. Raises FuseworksError `compiling:user:other-machine`."""
    import platform

    if metadata.get("machine", platform.machine()) != platform.machine():
        raise FuseworksError("compiling:user:other-machine", built=metadata["machine"], here=platform.machine())
    lacking = _flags(metadata) - set(machine.cpu_isa())
    if lacking:
        raise FuseworksError(
            "compiling:user:other-machine", built=metadata["cpu_isa"], here=f"no {', '.join(sorted(lacking))}"
        )
    device = metadata.get("device_key", context.device)
    if device != context.device:
        raise FuseworksError("compiling:user:other-machine", built=device, here=context.device)
    if device == "cuda":
        import torch

        here = torch.cuda.get_device_capability()
        if metadata.get("compute_capability", "") not in {f"{here[0]}{here[1]}", f"{here[0]}.{here[1]}"}:
            raise FuseworksError(
                "compiling:user:other-machine",
                built=f"sm_{metadata.get('compute_capability')}",
                here=f"sm_{here[0]}{here[1]}",
            )
