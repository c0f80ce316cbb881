"""A contender whose engine takes and gives numpy arrays. It works on no input in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optimizer.compiling.contender import as_declared, readable
from optimizer.spec import Workload


@dataclass
class NumpyContender:
    """`function` takes the staged arrays in the workload's order and gives arrays that it will not touch again."""

    function: Callable[[list[np.ndarray]], Sequence[Any]]
    workload: Workload
    inference_precision: str = "float32"
    device: str = "cpu"

    def stage(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [
            np.array(as_declared(spec, array), dtype=spec.dtype, copy=True, order="C")
            for spec, array in zip(self.workload.inputs, arrays, strict=True)
        ]

    def call(self, native: list[np.ndarray]) -> Sequence[Any]:
        return self.function(native)

    def outputs(self, native_outputs: Sequence[Any]) -> list[np.ndarray]:
        return [readable(np.asarray(output)) for output in native_outputs]

    def inputs_after(self, native: list[np.ndarray]) -> list[np.ndarray]:
        return [readable(array) for array in native]
