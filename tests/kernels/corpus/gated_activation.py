"""Spellings and near misses of `gated_activation`."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels.inputs import normal
from tests.kernels.corpus import Corpus


def new_gelu(x, inner=0.7978845608028654):
    return 0.5 * x * (1.0 + torch.tanh(inner * (x + 0.044715 * torch.pow(x, 3.0))))


CORPUS = Corpus(
    inputs=lambda batch, dtype: (normal(batch, 6, dtype=dtype), normal(batch, 6, dtype=dtype, seed=1)),
    batched=(0, 1),
    spellings={
        "silu(gate) * up": lambda g, u: F.silu(g) * u,
        "up first": lambda g, u: u * F.silu(g),
        "gate * sigmoid(gate)": lambda g, u: g * torch.sigmoid(g) * u,
        "sigmoid first": lambda g, u: u * (torch.sigmoid(g) * g),
        "gelu": lambda g, u: F.gelu(g) * u,
        "tanh gelu by hand": lambda g, u: new_gelu(g) * u,
        "tanh gelu": lambda g, u: u * F.gelu(g, approximate="tanh"),
    },
    refused={
        "different shapes": lambda g, u: F.silu(g) * u[:, :1],
        "needed by": lambda g, u: (lambda a: a * u + a)(F.silu(g)),
    },
    passed_over={
        "another constant in the tanh": lambda g, u: new_gelu(g, inner=0.8) * u,
        "a plain sigmoid": lambda g, u: torch.sigmoid(g) * u,
        "another gate": lambda g, u: g * torch.sigmoid(u) * u.sin(),
        "relu": lambda g, u: F.relu(g) * u,
        "a sum": lambda g, u: F.silu(g) + u,
    },
)
