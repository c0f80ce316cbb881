"""Spellings and near misses of `cross_entropy`."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels.inputs import integers, normal
from tests.kernels.corpus import Corpus

CORPUS = Corpus(
    inputs=lambda batch, dtype: (
        normal(batch, 6, dtype=dtype),
        integers(batch, below=6, seed=1),
        normal(6, dtype=dtype).abs(),
    ),
    batched=(0, 1),
    spellings={
        "mean": lambda x, t, w: F.cross_entropy(x, t),
        "sum": lambda x, t, w: F.cross_entropy(x, t, reduction="sum"),
        "none": lambda x, t, w: F.cross_entropy(x, t, reduction="none"),
        "another ignored class": lambda x, t, w: F.cross_entropy(x, t, ignore_index=3, reduction="sum"),
        "nll_loss": lambda x, t, w: F.nll_loss(F.log_softmax(x, -1), t, ignore_index=2),
        "gathered": lambda x, t, w: -F.log_softmax(x, 1).gather(1, t[:, None]).sum(),
    },
    refused={
        "not over the classes": lambda x, t, w: F.nll_loss(F.log_softmax(x, 0), t),
        "are weighted": lambda x, t, w: F.nll_loss(F.log_softmax(x, -1), t, w),
        "weighted": lambda x, t, w: F.cross_entropy(x, t, weight=w),
        "smoothed": lambda x, t, w: F.cross_entropy(x, t, label_smoothing=0.1),
        "not class numbers": lambda x, t, w: F.cross_entropy(x, torch.softmax(x.sin(), -1)),
        "not rows and classes": lambda x, t, w: F.cross_entropy(x.unsqueeze(-1), t.unsqueeze(-1)),
    },
    passed_over={"another loss": lambda x, t, w: F.nll_loss(x, t)},
)
