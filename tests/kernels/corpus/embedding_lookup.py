"""Spellings and near misses of `embedding_lookup`."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels.inputs import integers, normal
from tests.kernels.corpus import Corpus

CORPUS = Corpus(
    inputs=lambda batch, dtype: (
        normal(20, 6, dtype=dtype),
        integers(batch, 3, below=5, seed=1),
        torch.tensor([0, 5, 12]),
    ),
    batched=(1,),
    spellings={
        "ids + offsets": lambda t, i, o: F.embedding(i + o, t),
        "offsets first": lambda t, i, o: F.embedding(o + i, t),
        "flattened behind it": lambda t, i, o: F.embedding(i + o, t).flatten(1),
    },
    refused={"not one for each feature": lambda t, i, o: F.embedding(i + o[:1], t)},
    passed_over={
        "no offsets": lambda t, i, o: F.embedding(i, t),
        "the larger": lambda t, i, o: F.embedding(torch.maximum(i, o), t),
    },
)
