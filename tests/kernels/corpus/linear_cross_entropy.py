"""Spellings and near misses of `linear_cross_entropy`."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels.inputs import integers, normal
from tests.kernels.corpus import Corpus

CORPUS = Corpus(
    inputs=lambda batch, dtype: (
        normal(batch, 8, dtype=dtype),
        normal(6, 8, dtype=dtype, seed=1),
        integers(batch, below=6, seed=1),
        normal(6, dtype=dtype, seed=3),
    ),
    batched=(0, 2),
    spellings={
        "mean": lambda x, w, t, b: F.cross_entropy(F.linear(x, w), t),
        "sum": lambda x, w, t, b: F.cross_entropy(F.linear(x, w), t, reduction="sum"),
    },
    refused={
        "has a bias": lambda x, w, t, b: F.cross_entropy(F.linear(x, w, b), t),
        "smoothed": lambda x, w, t, b: F.cross_entropy(F.linear(x, w), t, label_smoothing=0.2),
        "not added up": lambda x, w, t, b: F.cross_entropy(F.linear(x, w), t, reduction="none"),
        "needed by": lambda x, w, t, b: (lambda y: F.cross_entropy(y, t) + y.sum())(F.linear(x, w)),
    },
    passed_over={"something between": lambda x, w, t, b: F.cross_entropy(torch.tanh(F.linear(x, w)), t)},
)
