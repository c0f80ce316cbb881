"""Spellings and near misses of `rope`."""

from __future__ import annotations

import torch

from kernels.inputs import normal
from tests.kernels.corpus import Corpus


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


CORPUS = Corpus(
    inputs=lambda batch, dtype: (
        normal(batch, 2, 5, 8, dtype=dtype),
        normal(5, 8, dtype=dtype, seed=1),
        normal(5, 8, dtype=dtype, seed=2),
    ),
    batched=(0,),
    spellings={
        "as Llama does": lambda x, c, s: (x * c) + (rotate_half(x) * s),
        "the other way round": lambda x, c, s: s * rotate_half(x) + c * x,
        "angles with leading ones": lambda x, c, s: x * c[None, None] + rotate_half(x) * s[None, None],
        "behind a transpose": lambda x, c, s: (lambda q: q * c + rotate_half(q) * s)(
            x.transpose(1, 2).contiguous().transpose(1, 2)
        ),
    },
    refused={
        "not the two halves": lambda x, c, s: x * c + torch.cat((-x[..., 2:], x[..., :2]), -1) * s,
    },
    passed_over={
        "neighbours rotated": lambda x, c, s: x * c + torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2) * s,
        "no sign": lambda x, c, s: x * c + torch.cat((x[..., 4:], x[..., :4]), -1) * s,
        "two different tensors": lambda x, c, s: x.sin() * c + rotate_half(x) * s,
    },
)
