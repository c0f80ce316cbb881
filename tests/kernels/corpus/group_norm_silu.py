"""Spellings and near misses of `group_norm_silu`."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels.inputs import normal
from tests.kernels.corpus import Corpus

CORPUS = Corpus(
    inputs=lambda batch, dtype: (
        normal(batch, 6, 4, 4, dtype=dtype),
        normal(6, dtype=dtype, seed=1),
        normal(6, dtype=dtype, seed=2),
    ),
    batched=(0,),
    spellings={
        "silu": lambda x, w, b: F.silu(F.group_norm(x, 3, w, b)),
        "x * sigmoid(x)": lambda x, w, b: (lambda n: n * torch.sigmoid(n))(F.group_norm(x, 2, w, b, 1e-6)),
        "without parameters": lambda x, w, b: F.silu(F.group_norm(x, 6)),
    },
    refused={"needed by": lambda x, w, b: (lambda n: F.silu(n) + n)(F.group_norm(x, 3, w, b))},
    passed_over={
        "no activation": lambda x, w, b: F.group_norm(x, 3, w, b),
        "relu": lambda x, w, b: F.relu(F.group_norm(x, 3, w, b)),
        "something between": lambda x, w, b: F.silu(F.group_norm(x, 3, w, b) * 2),
    },
)
