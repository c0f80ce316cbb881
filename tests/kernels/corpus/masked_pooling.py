"""Spellings and near misses of `masked_pooling`."""

from __future__ import annotations

import torch

from kernels.inputs import coins, normal
from tests.kernels.corpus import Corpus


def with_unsqueezed(x, m):
    weights = m.unsqueeze(-1).to(x.dtype)
    return (x * weights).sum(1) / weights.sum(1).clamp(min=1)


CORPUS = Corpus(
    inputs=lambda batch, dtype: (normal(batch, 5, 6, dtype=dtype), coins(batch, 5, seed=1)),
    batched=(0, 1),
    spellings={
        "a floor of one": with_unsqueezed,
        "an epsilon": lambda x, m: (lambda w: (w * x).sum(1) / (w.sum(1) + 1e-3))(m.unsqueeze(-1).to(x.dtype)),
        "counted from the flat mask": lambda x, m: (lambda f: (x * f.unsqueeze(-1)).sum(1) / f.sum(1, keepdim=True))(
            m.to(x.dtype)
        ),
        "clamp_min": lambda x, m: (lambda w: (x * w).sum(dim=1) / torch.clamp_min(w.sum(dim=1), 1e-6))(
            m.to(x.dtype).unsqueeze(-1)
        ),
        "an expanded mask": lambda x, m: (lambda w: (x * w).sum(1) / w.sum(1).clamp(min=1e-9))(
            m.unsqueeze(-1).expand(x.size()).to(x.dtype)
        ),
        "einsum": lambda x, m: (lambda f: torch.einsum("bl,bld->bd", f, x) / f.sum(1, keepdim=True))(m.to(x.dtype)),
    },
    refused={
        "sum is not over the steps": lambda x, m: (lambda w: (x * w).sum(2) / w.sum(2).clamp(min=1))(
            m.unsqueeze(-1).to(x.dtype)
        ),
    },
    passed_over={
        "missing mask": lambda x, m: x.sum(1) / 5,
        "another mask counted": lambda x, m: (x * m.unsqueeze(-1)).sum(1) / (~m).sum(1, keepdim=True).clamp(min=1),
        "no division": lambda x, m: (x * m.unsqueeze(-1)).sum(1),
    },
)
