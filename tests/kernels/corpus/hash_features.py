"""Spellings and near misses of `hash_features`."""

from __future__ import annotations

import torch

from kernels.inputs import integers
from tests.kernels.corpus import Corpus

CORPUS = Corpus(
    inputs=lambda batch, dtype: (integers(batch, 3, below=1000, seed=1).to(dtype), torch.tensor([7, 11, 3]).to(dtype)),
    batched=(0,),
    spellings={
        "%": lambda i, s: i % s,
        "remainder": lambda i, s: torch.remainder(i, s),
        "behind a shift": lambda i, s: (i * 31 + 7) % s,
    },
    refused={"not one for each feature": lambda i, s: i % s[:1]},
    passed_over={"C's remainder": lambda i, s: torch.fmod(i, s), "one size": lambda i, s: i % 7},
    dtypes=(torch.int64, torch.int32),
)
