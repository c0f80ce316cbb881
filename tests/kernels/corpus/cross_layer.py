"""Spellings and near misses of `cross_layer`."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels.inputs import normal
from tests.kernels.corpus import Corpus

CORPUS = Corpus(
    inputs=lambda batch, dtype: (
        normal(batch, 6, dtype=dtype),
        normal(batch, 6, dtype=dtype, seed=1),
        normal(6, 6, dtype=dtype, seed=2),
        normal(6, dtype=dtype, seed=3),
    ),
    batched=(0, 1),
    spellings={
        "x0 * linear(x) + x": lambda z, x, w, b: z * F.linear(x, w, b) + x,
        "x first": lambda z, x, w, b: x + z * F.linear(x, w, b),
        "linear first": lambda z, x, w, b: F.linear(x, w, b) * z + x,
        "without a bias": lambda z, x, w, b: x + F.linear(x, w) * z,
        "the first layer": lambda z, x, w, b: x * F.linear(x, w, b) + x,
    },
    refused={
        "x0 is": lambda z, x, w, b: z[:, :1] * F.linear(x, w, b) + x,
        "needed by": lambda z, x, w, b: (lambda y: z * y + x + y.sin())(F.linear(x, w, b)),
    },
    passed_over={
        "x0 added back": lambda z, x, w, b: z * F.linear(x, w, b) + z,
        "something between": lambda z, x, w, b: z * torch.relu(F.linear(x, w, b)) + x,
        "a difference": lambda z, x, w, b: z * F.linear(x, w, b) - x,
    },
)
