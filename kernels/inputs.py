"""The tensors that kernels are tried on: the same at every call, so that two processes compare the same case."""

from __future__ import annotations

import torch
from torch import Tensor


def normal(*shape: int, dtype: torch.dtype, seed: int = 0, scale: float = 1.0) -> Tensor:
    """Standard normal, rounded to the dtype."""
    return (torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * scale).to(dtype)


def integers(*shape: int, below: int, seed: int = 0) -> Tensor:
    return torch.randint(0, below, shape, generator=torch.Generator().manual_seed(seed))


def coins(*shape: int, seed: int = 0, share: float = 0.7) -> Tensor:
    """True with the given probability."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < share


def offsets(*lengths: int) -> Tensor:
    """Where each of the segments begins, and where the last ends."""
    return torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()])


def meta(*shape: int, dtype: torch.dtype) -> Tensor:
    """A tensor without memory."""
    return torch.empty(shape, dtype=dtype, device="meta")
