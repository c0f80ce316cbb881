"""Spellings and near misses of `layer_norm`."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels.inputs import normal
from tests.kernels.corpus import Corpus


def by_hand(x, w, b):
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + 1e-5) * w + b


CORPUS = Corpus(
    inputs=lambda batch, dtype: (
        normal(batch, 3, 8, dtype=dtype),
        normal(8, dtype=dtype, seed=1),
        normal(8, dtype=dtype, seed=2),
    ),
    batched=(0,),
    spellings={
        "layer_norm": lambda x, w, b: F.layer_norm(x, (8,), w, b),
        "without parameters": lambda x, w, b: F.layer_norm(x, (8,), eps=1e-3),
        "gelu behind it": lambda x, w, b: F.gelu(F.layer_norm(x, (8,), w, b)),
        "tanh gelu behind it": lambda x, w, b: F.gelu(F.layer_norm(x, (8,), w, b), approximate="tanh"),
        "a norm with two users": lambda x, w, b: (lambda n: F.gelu(n) + n)(F.layer_norm(x, (8,), w, b)),
        "by hand": by_hand,
    },
    refused={
        "more than the last": lambda x, w, b: F.layer_norm(x, (3, 8)),
        "unbiased": lambda x, w, b: (x - x.mean(-1, True)) / torch.sqrt(x.var(-1, keepdim=True) + 1e-6),
    },
    passed_over={
        "a mean over another dimension": lambda x, w, b: x - x.mean(1, keepdim=True),
        "batch statistics": lambda x, w, b: (x - x.mean(0)) / torch.sqrt(x.var(0, unbiased=False) + 1e-6),
    },
)
