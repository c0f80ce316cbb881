"""Spellings and near misses of `weighted_bce`."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels.inputs import coins, normal
from tests.kernels.corpus import Corpus

bce = F.binary_cross_entropy_with_logits
CORPUS = Corpus(
    inputs=lambda batch, dtype: (
        normal(batch, 3, dtype=dtype),
        coins(batch, 3, seed=1).to(dtype),
        torch.tensor([1.0, 2.0, 0.5]).to(dtype),
    ),
    batched=(0, 1),
    spellings={
        "mean": lambda x, y, w: bce(x, y),
        "sum": lambda x, y, w: bce(x, y, reduction="sum"),
        "weighted tasks": lambda x, y, w: bce(x, y, weight=w),
        "weighted positives": lambda x, y, w: bce(x, y, pos_weight=w),
    },
    refused={
        "not added up": lambda x, y, w: bce(x, y, reduction="none"),
        "not one value for each task": lambda x, y, w: bce(x, y, weight=w * x.sin()),
    },
    passed_over={"of probabilities": lambda x, y, w: F.binary_cross_entropy(torch.sigmoid(x), y)},
)
