"""Spellings and near misses of `jagged_to_padded`."""

from __future__ import annotations

import torch

from kernels.inputs import normal
from tests.kernels.corpus import Corpus

pad = torch.ops.aten._jagged_to_padded_dense_forward


def by_places(values, offsets, fill=0.0, last=8):
    place = offsets[:-1, None] + torch.arange(5)
    return torch.where((place < offsets[1:, None]).unsqueeze(-1), values[place.clamp(max=last)], fill)


def by_mask(values, offsets):
    lengths = offsets[1:] - offsets[:-1]
    out = torch.zeros(4, 5, 7, dtype=values.dtype)
    out[torch.arange(5).unsqueeze(0) < lengths.unsqueeze(1)] = values
    return out


CORPUS = Corpus(
    inputs=lambda batch, dtype: (normal(9, 7, dtype=dtype), torch.tensor([0, 2, 2, 7, 9])),
    batched=(),
    spellings={
        "aten": lambda v, o: pad(v, [o], [5], 0.0),
        "cut and filled": lambda v, o: pad(v, [o], [3], -1.0),
        "by places": by_places,
        "by places, filled": lambda v, o: by_places(v, o, -2.0),
        "by a mask": by_mask,
    },
    refused={
        "not bounded by the number of values": lambda v, o: by_places(v, o, last=7),
    },
    passed_over={
        "no padding": lambda v, o: v[(o[:-1, None] + torch.arange(2)).clamp(max=8)],
        "from one on": lambda v, o: torch.where(
            (o[:-1, None] + torch.arange(1, 4) < o[1:, None]).unsqueeze(-1),
            v[(o[:-1, None] + torch.arange(1, 4)).clamp(max=8)],
            0.0,
        ),
    },
)
