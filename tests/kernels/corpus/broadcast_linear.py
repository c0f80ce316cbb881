"""Spellings and near misses of `broadcast_linear`."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels.inputs import normal
from tests.kernels.corpus import Corpus


def joined(u, c):
    return torch.cat([u.unsqueeze(1).expand(-1, c.shape[1], -1), c], dim=-1)


CORPUS = Corpus(
    inputs=lambda batch, dtype: (
        normal(batch, 4, dtype=dtype),
        normal(batch, 3, 5, dtype=dtype, seed=1),
        normal(6, 9, dtype=dtype, seed=2),
        normal(6, dtype=dtype, seed=3),
    ),
    batched=(0, 1),
    spellings={
        "expand, cat, linear": lambda u, c, w, b: F.linear(joined(u, c), w, b),
        "without a bias": lambda u, c, w, b: F.linear(joined(u, c), w),
        "the user used again": lambda u, c, w, b: F.linear(joined(u, c), w, b).sum(1)[:, :4] + u,
    },
    refused={"needed by": lambda u, c, w, b: (lambda j: F.linear(j, w, b).sum() + j.sum())(joined(u, c))},
    passed_over={
        "candidates first": lambda u, c, w, b: F.linear(
            torch.cat([c, u.unsqueeze(1).expand(-1, c.shape[1], -1)], dim=-1), w, b
        ),
        "three parts": lambda u, c, w, b: F.linear(
            torch.cat([u.unsqueeze(1).expand(-1, c.shape[1], -1), c[..., :2], c[..., 2:]], dim=-1), w, b
        ),
    },
    tolerance=1e-4,
)
