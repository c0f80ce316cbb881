"""torchao's int8 quantization, compiled ahead of time by AOTInductor: a peer in int8. Loads without torchao.

It quantizes all linear layers: `keep_float32` and `rest` are refused, and so is every other precision.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from optimizer.compiling.availability import cpu_only, no_compiler, not_installed
from optimizer.compiling.backends.aot_inductor import AotInductor
from optimizer.compiling.base import Context, register_backend
from optimizer.compiling.engine_errors import engine_errors
from optimizer.errors import FuseworksError
from optimizer.spec import PrecisionStep

WHOLE = PrecisionStep(precision="int8")


@register_backend
class Torchao(AotInductor):
    name: ClassVar[str] = "torchao"
    title: ClassVar[str] = "torchao"
    summary: ClassVar[str] = "Quantizes linear layers to int8 as torchao does, then compiles with AOTInductor."
    libraries: ClassVar[tuple[str, ...]] = ("torch", "torchao")
    own_precisions: ClassVar[frozenset[str]] = frozenset({"int8"})

    class Options(AotInductor.Options):
        flow: Literal["quantize", "pt2e"] = Field(
            default="quantize",
            description="quantize_ on the layers, inputs rounded per row; or PT2E with the X86InductorQuantizer.",
        )

    def unavailable(self, target: str = "cpu") -> str | None:
        return not_installed("torchao") or cpu_only(self.title, target) or no_compiler()

    def _program(self, model: Path, options: Any, context: Context) -> Any:
        from optimizer.compiling.torchao_int8 import pt2e_quantized, quantized

        if context.precision != WHOLE:
            text = "it computes all linear layers in int8, and was asked for something else"
            raise FuseworksError("compiling:user:unsupported", engine=self.title, text=text)
        exported = super()._program(model, options, context)
        with engine_errors(self.title):
            return quantized(exported) if options.flow == "quantize" else pt2e_quantized(exported)
