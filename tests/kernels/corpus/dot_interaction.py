"""Spellings and near misses of `dot_interaction`."""

from __future__ import annotations

import torch

from kernels.inputs import normal
from tests.kernels.corpus import Corpus

CORPUS = Corpus(
    inputs=lambda batch, dtype: (
        normal(batch, 4, 6, dtype=dtype),
        torch.tril_indices(4, 4, -1)[0].clone(),
        torch.tril_indices(4, 4, -1)[1].clone(),
    ),
    batched=(0,),
    spellings={
        "bmm": lambda x, i, j: torch.bmm(x, x.transpose(1, 2))[:, i, j],
        "matmul": lambda x, i, j: (x @ x.transpose(-1, -2))[:, i, j],
        "permuted": lambda x, i, j: torch.bmm(x, x.permute(0, 2, 1))[:, i, j],
        "einsum": lambda x, i, j: torch.einsum("bne,bme->bnm", x, x)[:, i, j],
        "mT": lambda x, i, j: (x @ x.mT)[:, i, j],
    },
    refused={"needed by": lambda x, i, j: (lambda p: p[:, i, j].sum() + p.sum())(torch.bmm(x, x.transpose(1, 2)))},
    passed_over={
        "of two tensors": lambda x, i, j: torch.bmm(x, x.sin().transpose(1, 2))[:, i, j],
        "whole rows": lambda x, i, j: torch.bmm(x, x.transpose(1, 2))[:, i],
        "the other products": lambda x, i, j: torch.bmm(x.transpose(1, 2), x)[:, i, j],
    },
)
