"""Spellings and near misses of `modulate`."""

from __future__ import annotations

import torch.nn.functional as F

from kernels.inputs import normal
from tests.kernels.corpus import Corpus

CORPUS = Corpus(
    inputs=lambda batch, dtype: (
        normal(batch, 3, 8, dtype=dtype),
        normal(batch, 8, dtype=dtype, seed=1),
        normal(batch, 8, dtype=dtype, seed=2),
    ),
    batched=(0, 1, 2),
    spellings={
        "as DiT does": lambda x, c, s: F.layer_norm(x, (8,), eps=1e-6) * (1 + c.unsqueeze(1)) + s.unsqueeze(1),
        "the other way round": lambda x, c, s: s[:, None] + (c[:, None] + 1) * F.layer_norm(x, (8,)),
        "one added first": lambda x, c, s: F.layer_norm(x, (8,)) * (1 + c).unsqueeze(1) + s.unsqueeze(1),
        "vectors shared": lambda x, c, s: (
            lambda k, h: F.layer_norm(F.layer_norm(x, (8,)) * (1 + k) + h, (8,)) * (1 + k) + h
        )(c.unsqueeze(1), s.unsqueeze(1)),
    },
    refused={
        "not one vector for each sample": lambda x, c, s: (
            F.layer_norm(x, (8,)) * (1 + c[:, :1].unsqueeze(1)) + s.unsqueeze(1)
        ),
        "more than the last": lambda x, c, s: F.layer_norm(x, (3, 8)) * (1 + c.unsqueeze(1)) + s.unsqueeze(1),
    },
    passed_over={
        "no one added": lambda x, c, s: F.layer_norm(x, (8,)) * c.unsqueeze(1) + s.unsqueeze(1),
        "two added": lambda x, c, s: F.layer_norm(x, (8,)) * (2 + c.unsqueeze(1)) + s.unsqueeze(1),
        "no norm": lambda x, c, s: x * (1 + c.unsqueeze(1)) + s.unsqueeze(1),
    },
)
