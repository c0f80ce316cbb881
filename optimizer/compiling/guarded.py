"""A contender that is fast while some inputs repeat over the batch, and the original where they do not.

The promise is checked at every call, inside of what is timed, and by bits: a NaN repeats, 0.0 does not repeat -0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from optimizer.compiling.contender import Contender

BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
TORCH_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass
class Guarded:
    """`usual` is right where every input of `places` repeats its first row; `otherwise` always. Both stage alike."""

    usual: Contender
    otherwise: Contender
    places: Sequence[int]
    device: str = "cpu"
    inference_precision: str = "float32"

    def stage(self, arrays: Sequence[np.ndarray]) -> Any:
        return self.usual.stage(arrays)

    def call(self, native: Any) -> Any:
        tensors = getattr(native, "tensors", native)
        kept = all(repeats(tensors[place]) for place in self.places)
        return (self.usual if kept else self.otherwise).call(native)

    def outputs(self, native_outputs: Any) -> list[np.ndarray]:
        return self.usual.outputs(native_outputs)

    def inputs_after(self, native: Any) -> list[np.ndarray]:
        return self.usual.inputs_after(native)


def repeats(value: np.ndarray | torch.Tensor) -> bool:
    """Whether every row is the first, bit for bit."""
    if isinstance(value, torch.Tensor):
        bits = value.view(TORCH_BITS[value.element_size()])
        if value.device.type != "cpu":
            return bool((bits[1:] == bits[:1]).all())
        array: np.ndarray = bits.numpy()
    else:
        array = value.view(BITS[value.itemsize])
    return bool((array[1:] == array[:1]).all())
