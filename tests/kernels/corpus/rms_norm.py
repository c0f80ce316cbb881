"""Spellings and near misses of `rms_norm`."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels.inputs import normal
from tests.kernels.corpus import Corpus


def llama(x, w):
    wide = x.to(torch.float32)
    return w * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def t5(x, w):
    variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
    return w * (x * torch.rsqrt(variance + 1e-6)).to(w.dtype)


CORPUS = Corpus(
    inputs=lambda batch, dtype: (normal(batch, 3, 8, dtype=dtype), normal(8, dtype=dtype, seed=1)),
    batched=(0,),
    spellings={
        "rms_norm": lambda x, w: F.rms_norm(x.sin(), (8,), w, 1e-6),
        "without a weight": lambda x, w: F.rms_norm(x.sin(), (8,), None, 1e-3),
        "as Llama does": lambda x, w: llama(x.sin(), w),
        "as T5 does": lambda x, w: t5(x.sin(), w),
        "x * x": lambda x, w: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * w,
        "over a root": lambda x, w: x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-5),
    },
    refused={
        "no epsilon": lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True)),
        "more than the last": lambda x, w: F.rms_norm(x, (3, 8)),
    },
    passed_over={
        "over another dimension": lambda x, w: x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6),
        "of something else": lambda x, w: x.sin() * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6),
        "a cube": lambda x, w: x * torch.rsqrt(x.pow(3).mean(-1, keepdim=True) + 60.0),
    },
    dtypes=(torch.float32, torch.bfloat16),
)
