"""Spellings and near misses of `per_token_linear`."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels.inputs import normal
from tests.kernels.corpus import Corpus


def product(x, w):
    return torch.einsum("btd,tdh->bth", x, w)


CORPUS = Corpus(
    inputs=lambda batch, dtype: (
        normal(batch, 3, 6, dtype=dtype),
        normal(3, 6, 5, dtype=dtype, seed=1),
        normal(3, 5, dtype=dtype, seed=2),
    ),
    batched=(0,),
    spellings={
        "with a bias": lambda x, w, b: product(x, w) + b,
        "gelu": lambda x, w, b: F.gelu(product(x, w) + b),
        "gelu without a bias": lambda x, w, b: F.gelu(product(x, w)),
        "other letters": lambda x, w, b: b + torch.einsum("bti,tio->bto", x, w),
    },
    refused={"not one vector for each token": lambda x, w, b: product(x, w) + b[:1]},
    passed_over={
        "one weight for all": lambda x, w, b: torch.einsum("btd,dh->bth", x, w[0]) + b,
        "summed over tokens": lambda x, w, b: torch.einsum("btd,tdh->bh", x, w) + b[0],
    },
    tolerance=1e-4,
)
