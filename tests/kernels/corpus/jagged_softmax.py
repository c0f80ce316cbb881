"""Spellings and near misses of `jagged_softmax`."""

from __future__ import annotations

import torch

from kernels.inputs import normal
from tests.kernels.corpus import Corpus


def softmax(values, own, start=0.0, lowest=float("-inf")):
    index = own.unsqueeze(-1).expand_as(values)
    top = torch.full((4, 3), lowest, dtype=values.dtype).scatter_reduce(0, index, values, "amax")
    raised = torch.exp(values - top[own])
    total = torch.full((4, 3), start, dtype=values.dtype).index_add(0, own, raised)
    return raised / total[own]


def by_search(values, offsets, **other):
    return softmax(values, torch.searchsorted(offsets, torch.arange(9), right=True) - 1, **other)


def gathered(values, offsets):
    index = torch.repeat_interleave(offsets.diff(), output_size=9)[:, None].expand(-1, 3)
    top = values.new_full((4, 3), float("-inf")).scatter_reduce(0, index, values, "amax", include_self=False)
    raised = (values - top.gather(0, index)).exp()
    return raised / values.new_zeros(4, 3).scatter_add(0, index, raised).gather(0, index)


CORPUS = Corpus(
    inputs=lambda batch, dtype: (normal(9, 3, dtype=dtype), torch.tensor([0, 2, 2, 7, 9])),
    batched=(),
    spellings={
        "by search": by_search,
        "by buckets": lambda v, o: softmax(v, torch.bucketize(torch.arange(9), o, right=True) - 1),
        "by lengths": lambda v, o: softmax(v, torch.repeat_interleave(o[1:] - o[:-1], output_size=9)),
        "gathered and scattered": gathered,
    },
    refused={
        "not one row for each sequence": lambda v, o: softmax(
            v, torch.searchsorted(o[:-1], torch.arange(9), right=True) - 1
        ),
    },
    passed_over={
        "a total that starts at one": lambda v, o: by_search(v, o, start=1.0),
        "a maximum of at least zero": lambda v, o: by_search(v, o, lowest=0.0),
        "over all": lambda v, o: torch.softmax(v, 0),
    },
)
