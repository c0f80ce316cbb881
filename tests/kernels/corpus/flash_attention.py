"""Spellings and near misses of `flash_attention`."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels.inputs import coins, normal
from tests.kernels.corpus import Corpus

sdpa = F.scaled_dot_product_attention


def mask(batch: int) -> torch.Tensor:
    found = coins(batch, 1, 1, 5, seed=4)
    found[..., 0] = True
    return found


CORPUS = Corpus(
    inputs=lambda batch, dtype: (
        *[normal(batch, 4, 5, 8, dtype=dtype, seed=s) for s in range(3)],
        mask(batch),
    ),
    batched=(0, 1, 2, 3),
    spellings={
        "plain": lambda q, k, v, m: sdpa(q, k, v),
        "causal": lambda q, k, v, m: sdpa(q, k, v, is_causal=True),
        "bool mask": lambda q, k, v, m: sdpa(q, k, v, attn_mask=m),
        "bias and scale": lambda q, k, v, m: sdpa(q, k, v, torch.zeros(5, 5, dtype=q.dtype) + 0.5, scale=0.3),
        "grouped queries": lambda q, k, v, m: sdpa(q, k[:, :2], v[:, :2], enable_gqa=True),
    },
    refused={
        "dropped at random": lambda q, k, v, m: sdpa(q, k, v, dropout_p=0.5) * 0,
        "not [batch, heads": lambda q, k, v, m: sdpa(q[:, 0], k[:, 0], v[:, 0]),
    },
    passed_over={"by hand": lambda q, k, v, m: torch.softmax(q @ k.transpose(-1, -2), -1) @ v},
    tolerance=1e-4,
)
