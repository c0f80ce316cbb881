"""Spellings and near misses of `int8_linear`."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels.inputs import integers, normal
from tests.kernels.corpus import Corpus

CORPUS = Corpus(
    inputs=lambda batch, dtype: (
        normal(batch, 8, dtype=dtype),
        (integers(6, 8, below=255, seed=1) - 127).to(torch.int8),
        (normal(6, dtype=dtype, seed=2).abs() / 128).to(dtype),
        normal(6, dtype=dtype, seed=3),
    ),
    batched=(0,),
    spellings={
        "scale in a column": lambda x, w, s, b: F.linear(x, w.to(x.dtype) * s.unsqueeze(1), b),
        "scale first": lambda x, w, s, b: F.linear(x, s[:, None] * w.to(x.dtype)),
        "scale reshaped before": lambda x, w, s, b: F.linear(x, w.to(x.dtype) * s.view(6, 1), b),
        "scaled behind": lambda x, w, s, b: F.linear(x, w.to(x.dtype)) * s + b,
        "a transposed weight": lambda x, w, s, b: (x @ w.to(x.dtype).t()) * s,
    },
    refused={
        "the bias is scaled too": lambda x, w, s, b: F.linear(x, w.to(x.dtype), b) * s,
        "not int8": lambda x, w, s, b: F.linear(x, w.int().to(x.dtype) * s.unsqueeze(1), b),
        "one per input": lambda x, w, s, b: F.linear(x, w.to(x.dtype) * torch.cat((s, s[:2]))),
    },
    passed_over={"no scale": lambda x, w, s, b: F.linear(x, w.to(x.dtype), b)},
    tolerance=1e-4,
)
