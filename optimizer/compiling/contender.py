"""A contender: a model loaded by some engine, called in the same way whatever the engine. No torch.

Staging (arrays to what the engine takes) and reading outputs are apart from the call, so that only the call is timed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from optimizer.spec import InputSpec


class Contender(Protocol):
    """`device` is `cpu` or `cuda`: on the latter a call only queues the work, and the caller must synchronise."""

    device: str
    inference_precision: str

    def stage(self, arrays: Sequence[np.ndarray]) -> Any:
        """Inputs in the engine's own form: fresh memory each time, never the caller's."""

    def call(self, native: Any) -> Any:
        """The timed part. What it returns belongs to the caller: a later call must not change it."""

    def outputs(self, native_outputs: Any) -> list[np.ndarray]:
        """Copies of the outputs, flattened in the capture's order; float16 and bfloat16 widened to float32."""

    def inputs_after(self, native: Any) -> list[np.ndarray]:
        """The staged inputs as they are now: a model that writes into its inputs shows here."""


def as_declared(spec: InputSpec, array: np.ndarray) -> np.ndarray:
    """An array from the wire in the shape that the workload declares: a 0-d array travels as (1,)."""
    return array.reshape(()) if not spec.shape else array


def readable(array: np.ndarray) -> np.ndarray:
    """A copy that may travel: float16 does not."""
    return np.array(array, dtype=np.float32 if array.dtype == np.float16 else array.dtype, copy=True, order="C")
