"""Spellings and near misses of `hstu_attention`."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels.inputs import normal
from tests.kernels.corpus import Corpus


def scores(q, k):
    return torch.einsum("bnhd,bmhd->bhnm", q, k)


def weighted(w, v):
    return torch.einsum("bhnm,bmhd->bnhd", w, v)


def causal(q):
    return torch.ones(5, 5, dtype=q.dtype).tril()


CORPUS = Corpus(
    inputs=lambda batch, dtype: (
        *[normal(batch, 5, 2, 8, dtype=dtype, seed=s) for s in range(3)],
        normal(batch, 5, 5, dtype=dtype, seed=4),
    ),
    batched=(0, 1, 2, 3),
    spellings={
        "as its authors write it": lambda q, k, v, b: weighted(
            F.silu(scores(q, k) + b.unsqueeze(1)) / 5 * causal(q), v
        ),
        "without a bias": lambda q, k, v, b: weighted(F.silu(scores(q, k)) / 5, v),
        "masked before it is divided": lambda q, k, v, b: weighted(causal(q) * F.silu(scores(q, k)) / 5, v),
        "scaled": lambda q, k, v, b: weighted(F.silu(b.unsqueeze(1) + scores(q, k) * 0.25) / 5, v),
    },
    refused={
        "needed by": lambda q, k, v, b: (lambda w: weighted(w, v).sum() + w.sum())(F.silu(scores(q, k)) / 5),
    },
    passed_over={
        "a softmax": lambda q, k, v, b: weighted(torch.softmax(scores(q, k), -1), v),
        "a gelu": lambda q, k, v, b: weighted(F.gelu(scores(q, k)) / 5, v),
        "not divided": lambda q, k, v, b: weighted(F.silu(scores(q, k)), v),
    },
    tolerance=1e-4,
)
