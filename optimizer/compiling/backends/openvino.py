"""OpenVINO on the CPU: reads ONNX and PyTorch graphs. The inference precision is pinned, never OpenVINO's own choice.

Under bfloat16 it lowers the graph by itself, so `keep_float32` cannot be honoured and is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from optimizer.compiling.availability import cpu_only, not_installed
from optimizer.compiling.base import Backend, BackendOptions, Context, Profiled, register_backend, serving_sizes
from optimizer.compiling.contender import Contender
from optimizer.compiling.engine_errors import engine_errors
from optimizer.errors import FuseworksError
from optimizer.profiling.document import GraphNode
from optimizer.spec import KeepFloat32

ENTRY = "model.xml"
# As OpenVINO writes a precision in a property, and as it answers.
HINTS = {"float32": "f32", "bfloat16": "bf16"}


@register_backend
class OpenVino(Backend):
    name: ClassVar[str] = "openvino"
    title: ClassVar[str] = "OpenVINO"
    summary: ClassVar[str] = "Compiles an ONNX or PyTorch graph for the CPU at loading."
    formats: ClassVar[frozenset[str]] = frozenset({"pt2", "onnx"})
    libraries: ClassVar[tuple[str, ...]] = ("openvino",)
    own_precisions: ClassVar[frozenset[str]] = frozenset({"bfloat16"})
    profiled_by: ClassVar[str] = "OpenVINO's own counters (PERF_COUNT), in whole microseconds for each primitive."

    class Options(BackendOptions):
        static: bool = Field(
            default=False,
            description="Compile once per serve size with fixed shapes; other sizes use the dynamic model.",
        )

    def unavailable(self, target: str = "cpu") -> str | None:
        return cpu_only(self.title, target) or not_installed("openvino")

    def prepare(self) -> None:
        import openvino  # noqa: F401

    def build(self, model: Path, options: Any, context: Context, out: Path) -> dict[str, Any]:
        import openvino

        self._refuse_precision(context)
        with engine_errors(self.title):
            converted = self._converted(model, context)
            openvino.save_model(converted, str(out / ENTRY), compress_to_fp16=False)
            self._compile(converted, context)  # what it cannot run shows here, not when it is measured
        return {"entry": ENTRY, "load": {"device": "CPU", "config": self._config(context)}}

    def load(self, artifact: Path | None, options: Any, context: Context) -> Contender:
        import openvino

        from optimizer.compiling.numpy_contender import NumpyContender

        if artifact is None:
            raise FuseworksError("compiling:ours:artifact", text=f"{self.title} has none to load")
        self._refuse_precision(context)
        with engine_errors(self.title):
            model = openvino.Core().read_model(str(artifact / ENTRY))
            general = _call(self._compile(model, context))
            fixed = {}
            if options.static and context.workload.dims:
                for sizes in serving_sizes(context.workload):
                    shapes = [context.workload.shape_of(spec, sizes) for spec in context.workload.inputs]
                    fixed[tuple(shapes)] = _call(self._compile(_of_shapes(artifact, shapes), context))
        if not fixed:
            return NumpyContender(general, context.workload, context.precision_name)

        def call(arrays: list[Any]) -> Any:
            return fixed.get(tuple(a.shape for a in arrays), general)(arrays)

        return NumpyContender(call, context.workload, context.precision_name)

    def profile(
        self, artifact: Path | None, options: Any, context: Context, arrays: Sequence[np.ndarray], calls: int
    ) -> Profiled:
        import openvino

        from optimizer.compiling.numpy_contender import NumpyContender
        from optimizer.profiling.openvino_counters import profile_compiled

        if artifact is None:
            raise FuseworksError("compiling:ours:artifact", text=f"{self.title} has none to load")
        staged = NumpyContender(lambda given: given, context.workload).stage(arrays)
        with engine_errors(self.title):
            if options.static and context.workload.dims:
                model = _of_shapes(artifact, [array.shape for array in staged])
            else:
                model = openvino.Core().read_model(str(artifact / ENTRY))
            compiled = self._compile(model, context, PERF_COUNT=True)
            return Profiled(*profile_compiled(compiled, staged, calls, _places(context)))

    def _converted(self, model: Path, context: Context) -> Any:
        import openvino

        if context.format == "onnx":
            return openvino.convert_model(str(model))
        from optimizer.compiling.torch_program import load_program, lowered, output_count

        exported = lowered(load_program(model), context)
        wanted = output_count(exported)
        converted = openvino.convert_model(exported)
        if len(converted.outputs) != wanted:
            raise FuseworksError("compiling:ours:outputs", engine=self.title, got=len(converted.outputs), wanted=wanted)
        return converted

    def _compile(self, model: Any, context: Context, **more: Any) -> Any:
        import openvino

        compiled = openvino.Core().compile_model(model, "CPU", {**self._config(context), **more})
        got, wanted = compiled.get_property("INFERENCE_PRECISION_HINT"), HINTS[context.precision_name]
        name = {"f32": "f32", "float32": "f32", "bf16": "bf16", "bfloat16": "bf16"}.get(_type_name(got))
        if name != wanted:
            text = f"it would compute in {_type_name(got)} where {wanted} was asked for"
            raise FuseworksError("compiling:user:unsupported", engine=self.title, text=text)
        return compiled

    def _config(self, context: Context) -> dict[str, Any]:
        return {
            "INFERENCE_PRECISION_HINT": HINTS[context.precision_name],
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": context.threads,
            "NUM_STREAMS": 1,
        }

    def _refuse_precision(self, context: Context) -> None:
        if context.precision_name == "float32":
            return
        if context.precision_name not in HINTS:
            text = f"its own reader knows no product of {context.precision_name}"
            raise FuseworksError("compiling:user:unsupported", engine=self.title, text=text)
        import openvino

        assert context.precision is not None
        if context.precision.keep_float32 != KeepFloat32():
            text = "it chooses by itself what it computes in bfloat16, so keep_float32 cannot be honoured"
            raise FuseworksError("compiling:user:unsupported", engine=self.title, text=text)
        if "BF16" not in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
            text = "this processor has no bfloat16 instructions, and it would compute in float32"
            raise FuseworksError("compiling:user:unsupported", engine=self.title, text=text)


def _of_shapes(artifact: Path, shapes: Sequence[tuple[int, ...]]) -> Any:
    import openvino

    model = openvino.Core().read_model(str(artifact / ENTRY))
    model.reshape(dict(zip([i.any_name for i in model.inputs], map(list, shapes), strict=True)))
    return model


def _places(context: Context) -> dict[str, GraphNode]:
    """Of the graph that was converted, whose names OpenVINO kept."""
    if context.format == "onnx":
        from optimizer.profiling.places import of_onnx

        return of_onnx(context.model)
    from optimizer.compiling.torch_program import load_program, lowered
    from optimizer.profiling.torch_graph import places_of

    return places_of(lowered(load_program(context.model), context).graph)


def _call(compiled: Any) -> Any:
    """Infers once. Outputs are copied: the request reuses its own buffers at the next call."""
    request = compiled.create_infer_request()
    count = len(compiled.outputs)

    def call(arrays: list[Any]) -> list[Any]:
        answer = request.infer(arrays, share_inputs=True, share_outputs=False)
        return [answer[i] for i in range(count)]

    return call


def _type_name(value: Any) -> str:
    """An openvino.Type prints as `<Type: 'float32'>`."""
    return str(value.get_type_name() if hasattr(value, "get_type_name") else value)
