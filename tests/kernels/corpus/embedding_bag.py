"""Spellings and near misses of `embedding_bag`."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels.inputs import integers, normal
from tests.kernels.corpus import Corpus

CORPUS = Corpus(
    inputs=lambda batch, dtype: (
        normal(20, 6, dtype=dtype),
        integers(3 * batch, below=20, seed=1),
        torch.arange(batch) * 3,
        normal(3 * batch, dtype=dtype),
    ),
    batched=(),
    spellings={
        "sum": lambda t, i, o, w: F.embedding_bag(i, t, o, mode="sum"),
        "mean": lambda t, i, o, w: F.embedding_bag(i, t, o, mode="mean"),
    },
    refused={
        "maxima": lambda t, i, o, w: F.embedding_bag(i, t, o, mode="max"),
        "weights of their own": lambda t, i, o, w: F.embedding_bag(i, t, o, mode="sum", per_sample_weights=w),
        "row is padding": lambda t, i, o, w: F.embedding_bag(i, t, o, mode="sum", padding_idx=1),
    },
    passed_over={"a lookup": lambda t, i, o, w: F.embedding(i, t)},
)
