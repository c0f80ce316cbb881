"""ONNX Runtime on the CPU: reads ONNX, or what torch.onnx makes of a PyTorch graph. float32, and int8 by its own
dynamic quantization, which chooses by itself what it quantizes: `keep_float32` is refused.

Its own optimizer has four levels, each of which can lose or be wrong on some model: they are candidates of their own.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from optimizer.compiling.availability import no_cuda_provider, not_installed
from optimizer.compiling.base import Backend, BackendOptions, Context, Profiled, register_backend
from optimizer.compiling.contender import Contender
from optimizer.compiling.engine_errors import engine_errors
from optimizer.compiling.onnx_optimizers import LEAVE_OUT
from optimizer.errors import FuseworksError
from optimizer.spec import KeepFloat32

ENTRY = "model.onnx"
INLINE_BYTES = 1_500_000_000  # protobuf ends at 2 GiB
LEVELS = {
    "disabled": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
SPINNING = "session.intra_op.allow_spinning"


@register_backend
class OnnxRuntime(Backend):
    name: ClassVar[str] = "onnxruntime"
    title: ClassVar[str] = "ONNX Runtime"
    summary: ClassVar[str] = "Runs an ONNX graph with its own fused kernels."
    formats: ClassVar[frozenset[str]] = frozenset({"pt2", "onnx"})
    libraries: ClassVar[tuple[str, ...]] = ("onnxruntime",)
    own_precisions: ClassVar[frozenset[str]] = frozenset({"int8"})
    profiled_by: ClassVar[str] = "ONNX Runtime's own session profiling, which times each node that it runs."

    class Options(BackendOptions):
        level: Literal["disabled", "basic", "extended", "all"] = Field(
            default="all", description="How much of its own graph optimizer runs; `all` is its default."
        )
        disabled_optimizers: tuple[Annotated[str, Field(pattern=r"^\w{1,60}$")], ...] = Field(
            default=(), description="Its own optimizers that are left out, such as GeluFusionL2: those that are wrong."
        )
        spinning: bool = Field(
            default=True, description="Worker threads spin between operations: faster alone, and a cost to neighbours."
        )

    def unavailable(self, target: str = "cpu") -> str | None:
        return not_installed("onnxruntime") or no_cuda_provider(target)

    def prepare(self) -> None:
        import onnxruntime

        onnxruntime.set_default_logger_severity(3)

    def build(self, model: Path, options: Any, context: Context, out: Path) -> dict[str, Any]:
        with engine_errors(self.title):
            if context.format == "onnx":
                from optimizer.compiling.onnx_export import copy_onnx

                path = copy_onnx(model, out)
            else:
                from optimizer.compiling.onnx_export import export_onnx
                from optimizer.compiling.torch_program import load_program, lowered

                path = export_onnx(lowered(load_program(model), context), out)
            if context.precision_name == "int8":
                self._quantize(path, context)
            self._session(path, options, context)  # what it cannot run shows here, not when it is measured
        return {
            "entry": ENTRY,
            "load": {
                "graph_optimization_level": LEVELS[options.level],
                "session_config": _session_config(options),
                **({"providers": ["CUDAExecutionProvider"]} if context.device == "cuda" else {}),
            },
        }

    def load(self, artifact: Path | None, options: Any, context: Context) -> Contender:
        from optimizer.compiling.numpy_contender import NumpyContender

        with engine_errors(self.title):
            session = self._session(artifact / ENTRY if artifact else context.model, options, context)
        if context.device == "cuda":
            from optimizer.compiling.onnx_cuda import CudaContender

            return CudaContender(session, context.workload)
        names = [i.name for i in session.get_inputs()]
        outputs = [o.name for o in session.get_outputs()]
        if len(names) != len(context.workload.inputs):
            text = f"it takes {len(names)} inputs where the workload has {len(context.workload.inputs)}"
            raise FuseworksError("compiling:ours:artifact", text=text)
        run = session.run

        def call(arrays: list[Any]) -> Any:
            return run(outputs, dict(zip(names, arrays, strict=True)))

        return NumpyContender(call, context.workload, "int8" if context.precision_name == "int8" else "float32")

    def profile(
        self, artifact: Path | None, options: Any, context: Context, arrays: Sequence[np.ndarray], calls: int
    ) -> Profiled:
        from optimizer.compiling.numpy_contender import NumpyContender
        from optimizer.profiling.onnx_runtime import profile_session
        from optimizer.profiling.places import of_onnx

        path = artifact / ENTRY if artifact else context.model
        staged = NumpyContender(lambda given: given, context.workload).stage(arrays)
        with engine_errors(self.title):
            return Profiled(
                *profile_session(
                    lambda prefix: self._session(path, options, context, prefix),
                    staged,
                    calls,
                    context.scratch,
                    of_onnx(path),
                )
            )

    def _quantize(self, path: Path, context: Context) -> None:
        """In place, as its documentation says: weights per tensor in int8, inputs at each call."""
        from onnxruntime.quantization import QuantType, quantize_dynamic

        assert context.precision is not None
        if context.precision.keep_float32 != KeepFloat32():
            text = "it chooses by itself what it computes in int8, so keep_float32 cannot be honoured"
            raise FuseworksError("compiling:user:unsupported", engine=self.title, text=text)
        whole = Path(tempfile.mkdtemp(prefix="float32-", dir=context.scratch)) / ENTRY
        for file in path.parent.iterdir():
            shutil.move(file, whole.parent / file.name)
        large = sum(file.stat().st_size for file in whole.parent.iterdir()) > INLINE_BYTES
        quantize_dynamic(whole, path, weight_type=QuantType.QInt8, use_external_data_format=large)

    def _session(self, path: Path, options: Any, context: Context, profile_prefix: str | None = None) -> Any:
        import onnxruntime

        wanted = onnxruntime.SessionOptions()
        if profile_prefix is not None:
            wanted.enable_profiling = True
            wanted.profile_file_prefix = profile_prefix
        wanted.intra_op_num_threads = context.threads
        wanted.inter_op_num_threads = 1
        wanted.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, LEVELS[options.level])
        for key, value in _session_config(options).items():
            wanted.add_session_config_entry(key, value)
        if context.device != "cuda":
            return onnxruntime.InferenceSession(str(path), wanted, providers=["CPUExecutionProvider"])
        from optimizer.compiling.onnx_cuda import PROVIDERS, refuse_fallback

        session = onnxruntime.InferenceSession(str(path), wanted, providers=PROVIDERS)
        refuse_fallback(session.get_providers())
        return session


def _session_config(options: OnnxRuntime.Options) -> dict[str, str]:
    """As a session takes it, and a package's `run.py` gives it."""
    found = {SPINNING: "1" if options.spinning else "0"}
    return {**found, LEAVE_OUT: ";".join(options.disabled_optimizers)} if options.disabled_optimizers else found
