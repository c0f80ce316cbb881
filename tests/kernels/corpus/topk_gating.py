"""Spellings and near misses of `topk_gating`."""

from __future__ import annotations

import torch

from kernels.inputs import normal
from tests.kernels.corpus import Corpus


def mixtral(x):
    weights, ids = torch.topk(torch.softmax(x, dim=-1), 2, dim=-1)
    return weights / weights.sum(dim=-1, keepdim=True), ids


def best_first(x):
    values, ids = torch.topk(x, 2, dim=-1)
    return torch.softmax(values, dim=-1), ids


CORPUS = Corpus(
    inputs=lambda batch, dtype: (normal(batch, 6, dtype=dtype),),
    batched=(0,),
    spellings={
        "softmax, then the best": lambda x: tuple(torch.topk(torch.softmax(x, -1), 3)),
        "as Mixtral does": mixtral,
        "the best, then softmax": best_first,
        "weights alone": lambda x: torch.topk(torch.softmax(x, -1), 2).values,
    },
    refused={"not over the last": lambda x: tuple(torch.topk(torch.softmax(x, 0), 2))},
    passed_over={
        "no softmax": lambda x: tuple(torch.topk(x, 2)),
        "the least": lambda x: tuple(torch.topk(torch.softmax(x, -1), 2, largest=False)),
    },
    dtypes=(torch.float32,),
)
