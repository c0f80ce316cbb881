"""ONNX Runtime on a CUDA GPU: inputs and outputs bound to the device, so that a call copies neither.

Written beside the CPU path and not tried on a GPU yet. ONNX Runtime falls back to the CPU without a word when its CUDA
provider does not start: that is refused here. It waits for the device itself, so that a call's time is the wall
clock's; what its own allocator took it does not tell, so that no peak of memory is told either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optimizer.compiling.contender import as_declared, readable
from optimizer.errors import FuseworksError
from optimizer.spec import Workload

PROVIDER = "CUDAExecutionProvider"
# the only GPU that a child may open; TensorFloat-32 would be a lower precision without a word
PROVIDERS: list[Any] = [(PROVIDER, {"device_id": 0, "use_tf32": 0})]
DEVICE = "onnxruntime:cuda"  # neither torch's events nor its allocator know of this engine


def refuse_fallback(providers: Sequence[str]) -> None:
    """Raises FuseworksError (`compiling:ours:unavailable`) when the session does not compute on the GPU."""
    if PROVIDER not in providers:
        raise FuseworksError(
            "compiling:ours:unavailable",
            engine="ONNX Runtime",
            text=f"its CUDA provider did not start, and it would compute on {', '.join(providers) or 'nothing'}",
            remedy="Install the CUDA and cuDNN libraries that this onnxruntime-gpu was built for.",
        )


@dataclass
class CudaContender:
    """`session` runs on the GPU. Every call binds anew: what it answers is memory of its own."""

    session: Any
    workload: Workload
    inference_precision: str = "float32"
    device: str = DEVICE

    def stage(self, arrays: Sequence[np.ndarray]) -> Any:
        import onnxruntime

        binding = self.session.io_binding()
        held = []
        for given, spec, array in zip(self.session.get_inputs(), self.workload.inputs, arrays, strict=True):
            staged = np.array(as_declared(spec, array), dtype=spec.dtype, copy=True, order="C")
            value = onnxruntime.OrtValue.ortvalue_from_numpy(staged, "cuda", 0)
            binding.bind_ortvalue_input(given.name, value)
            held.append(value)
        for output in self.session.get_outputs():
            binding.bind_output(output.name, "cuda", 0)
        return binding, held

    def call(self, native: Any) -> Any:
        binding, _ = native
        self.session.run_with_iobinding(binding)
        return binding.get_outputs()

    def outputs(self, native_outputs: Any) -> list[np.ndarray]:
        return [readable(np.asarray(value.numpy())) for value in native_outputs]

    def inputs_after(self, native: Any) -> list[np.ndarray]:
        return [readable(np.asarray(value.numpy())) for value in native[1]]
