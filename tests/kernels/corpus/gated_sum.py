"""Spellings and near misses of `gated_sum`."""

from __future__ import annotations

import torch

from kernels.inputs import normal
from tests.kernels.corpus import Corpus

CORPUS = Corpus(
    inputs=lambda batch, dtype: (normal(batch, 4, 6, dtype=dtype), normal(batch, 4, dtype=dtype, seed=1)),
    batched=(0, 1),
    spellings={
        "unsqueeze, mul, sum": lambda e, g: (torch.softmax(g, dim=-1).unsqueeze(-1) * e).sum(dim=1),
        "experts first": lambda e, g: (e * g.softmax(1).unsqueeze(2)).sum(1),
        "einsum": lambda e, g: torch.einsum("be,bed->bd", torch.softmax(g, -1), e),
        "bmm": lambda e, g: torch.bmm(torch.softmax(g, -1).unsqueeze(1), e).squeeze(1),
    },
    refused={
        "not over the experts": lambda e, g: (torch.softmax(g, 0).unsqueeze(-1) * e).sum(1),
        "sum is not over": lambda e, g: (torch.softmax(g, -1).unsqueeze(-1) * e).sum(2),
        "needed by": lambda e, g: (lambda w: (w.unsqueeze(-1) * e).sum(1) + w.sum())(torch.softmax(g, -1)),
    },
    passed_over={
        "no softmax": lambda e, g: (g.unsqueeze(-1) * e).sum(1),
        "a mean": lambda e, g: (torch.softmax(g, -1).unsqueeze(-1) * e).mean(1),
    },
)
