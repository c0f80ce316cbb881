"""Spellings and near misses of `bucketize`."""

from __future__ import annotations

import torch

from kernels.inputs import normal
from tests.kernels.corpus import Corpus

CORPUS = Corpus(
    inputs=lambda batch, dtype: (normal(batch, 3, dtype=dtype), torch.tensor([-1.0, 0.0, 1.0]).to(dtype)),
    batched=(0,),
    spellings={
        "left": lambda x, b: torch.bucketize(x, b),
        "right": lambda x, b: torch.bucketize(x, b, right=True),
        "searchsorted": lambda x, b: torch.searchsorted(b, x),
        "searchsorted, side by name": lambda x, b: torch.searchsorted(b, x, side="right"),
    },
    refused={
        "not one float dtype": lambda x, b: torch.bucketize(x.double(), b),
        "boundaries of its own": lambda x, b: torch.searchsorted(b.expand(x.shape[0], 3).contiguous(), x),
    },
    passed_over={
        "int32": lambda x, b: torch.bucketize(x, b, out_int32=True),
        "searchsorted, int32": lambda x, b: torch.searchsorted(b, x, out_int32=True),
    },
)
