"""Spellings and near misses of `rms_norm_int8`."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels.inputs import normal
from tests.kernels.corpus import Corpus


def quantised(x, w, low=-127, floor=1e-6, dim=-1):
    normed = F.rms_norm(x, (8,), w, 1e-6)
    scale = (normed.abs().amax(dim=dim, keepdim=True) / 127).clamp(min=floor)
    return torch.round(normed / scale).clamp(low, 127).to(torch.int8), scale


CORPUS = Corpus(
    inputs=lambda batch, dtype: (normal(batch, 8, dtype=dtype), normal(8, dtype=dtype, seed=1)),
    batched=(0,),
    spellings={
        "symmetric": quantised,
        "down to -128": lambda x, w: quantised(x, w, low=-128),
        "without a weight": lambda x, w: quantised(x, None),
    },
    refused={
        "not over the last dimension": lambda x, w: quantised(x, w, dim=0),
        "not clamped to int8": lambda x, w: quantised(x, w, low=0),
    },
    passed_over={
        "no norm": lambda x, w: (lambda s: torch.round(x / s).clamp(-127, 127).to(torch.int8))(
            (x.abs().amax(-1, True) / 127).clamp(min=1e-6)
        ),
    },
    dtypes=(torch.float32,),
)
