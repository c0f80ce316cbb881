"""A contender whose call is one training step. Its calls are a sequence: each goes on from where the last one left,
until `reset` puts parameters, buffers and optimizer back to where they began.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from optimizer.compiling.contender import as_declared
from optimizer.compiling.step.runtime import Step
from optimizer.compiling.torch_contender import to_numpy
from optimizer.spec import Workload

NUDGE = 2.0**-22  # of a parameter's size: what rounding it may cost
SUMS = 64  # of each parameter's change, in the answer of a call
WHOLE = 1 << 18  # elements up to which a tensor is handed over as it is
BUCKETS = 65_521  # a prime: no two rows of a table fall into one bucket element by element


@dataclass
class StepContender:
    """`dtype`: what floats are computed in. Answers are the loss of a call, and by how much each parameter has changed
    since the last reset when the answer is read."""

    step: Step
    workload: Workload
    device: str = "cpu"
    inference_precision: str = "float32"
    dtype: torch.dtype | None = None
    in_sequence: bool = True
    _start: dict[str, torch.Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        state = {**self.step.parameters, **self.step.buffers}
        self._start = {name: tensor.detach().clone() for name, tensor in state.items()}

    def stage(self, arrays: Sequence[np.ndarray]) -> list[torch.Tensor]:
        return [
            torch.tensor(as_declared(spec, array), dtype=self._dtype(spec.dtype), device=self.device)
            for spec, array in zip(self.workload.inputs, arrays, strict=True)
        ]

    def _dtype(self, declared: str) -> torch.dtype:
        own: torch.dtype = getattr(torch, declared)
        return self.dtype if self.dtype is not None and own.is_floating_point else own

    def call(self, native: list[torch.Tensor]) -> torch.Tensor:
        return self.step(*native)

    def outputs(self, native_outputs: torch.Tensor) -> list[np.ndarray]:
        return [to_numpy(native_outputs), self.changes()]

    def first_outputs(self, native_outputs: torch.Tensor) -> list[np.ndarray]:
        """What can be read in no time: while a burst is timed."""
        return [to_numpy(native_outputs)]

    def inputs_after(self, native: list[torch.Tensor]) -> list[np.ndarray]:
        return [to_numpy(tensor) for tensor in native]

    @torch.no_grad()
    def reset(self, nudge: int | None = None) -> None:
        """`nudge`: a seed; every parameter is moved by a rounding error."""
        state: dict[str, torch.Tensor] = {**self.step.parameters, **self.step.buffers}
        for name, tensor in state.items():
            tensor.copy_(self._start[name])
        self.step.forget()
        if nudge is not None:
            generator = torch.Generator().manual_seed(nudge)
            for parameter in self.step.parameters.values():
                signs = torch.randint(0, 2, parameter.shape, generator=generator, dtype=torch.int8)
                parameter.mul_(1 + NUDGE * (2 * signs.to(parameter.dtype) - 1))

    @torch.no_grad()
    def changes(self) -> np.ndarray:
        """[parameters, SUMS]: sums of each parameter's change over interleaved elements, in float64."""
        found = [interleaved_sums(p - self._start[name], SUMS) for name, p in self.step.parameters.items()]
        return np.stack(found)

    # ---- what verification reads ---------------------------------------------------------------------------------

    def gradients(self) -> tuple[list[str], list[np.ndarray]]:
        return _condensed(self.step.gradients())

    @torch.no_grad()
    def updates(self) -> tuple[list[str], list[np.ndarray]]:
        """By how much each parameter has changed since the last reset."""
        return _condensed((name, p.detach() - self._start[name]) for name, p in self.step.parameters.items())

    @torch.no_grad()
    def state(self) -> tuple[list[str], list[np.ndarray]]:
        """The optimizer's moments and sums, and those buffers of the model that a step may change."""
        buffers = ((name, b) for name, b in self.step.buffers.items() if name in self.step.design["buffers"])
        return _condensed([*self.step.optimizer_state(), *buffers])


def _condensed(tensors: Iterable[tuple[str, torch.Tensor]]) -> tuple[list[str], list[np.ndarray]]:
    names, arrays = [], []
    for name, tensor in tensors:
        names.append(name)
        whole = tensor.numel() <= WHOLE
        arrays.append(to_numpy(tensor).reshape(-1) if whole else interleaved_sums(tensor, BUCKETS))
    return names, arrays


def interleaved_sums(tensor: torch.Tensor, count: int) -> np.ndarray:
    """`count` sums in float64 that together cover every element: the nth is over those at n, n + count, ..."""
    flat = tensor.detach().reshape(-1)
    flat = torch.nn.functional.pad(flat, (0, -flat.numel() % count))
    return to_numpy(flat.view(-1, count).sum(0, dtype=torch.float64))
