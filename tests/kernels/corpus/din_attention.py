"""Spellings and near misses of `din_attention`."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels.inputs import coins, normal
from tests.kernels.corpus import Corpus


def scores(q, k, m, w1, b1, w2, b2, w3, b3, act=torch.relu, scale=2.0):
    q = q.unsqueeze(1).expand(-1, k.shape[1], -1)
    hidden = act(F.linear(torch.cat([q, k, q - k, q * k], dim=-1), w1, b1))
    hidden = act(F.linear(hidden, w2, b2))
    return F.linear(hidden, w3, b3).squeeze(-1) / scale


def authors(q, k, m, *layers):
    weights = torch.softmax(scores(q, k, m, *layers).masked_fill(~m, -1e9), dim=-1)
    return torch.bmm(weights.unsqueeze(1), k).squeeze(1)


def summed(q, k, m, *layers):
    weights = torch.softmax(torch.where(m, scores(q, k, m, *layers), -1e4), dim=-1)
    return (weights.unsqueeze(-1) * k).sum(1)


def missing_mask(q, k, m, *layers):
    weights = torch.softmax(scores(q, k, m, *layers), dim=-1)
    return torch.bmm(weights.unsqueeze(1), k).squeeze(1)


def other_activation(q, k, m, *layers):
    weights = torch.softmax(scores(q, k, m, *layers, act=torch.sigmoid).masked_fill(~m, -1e9), dim=-1)
    return torch.bmm(weights.unsqueeze(1), k).squeeze(1)


def shown_outside(q, k, m, *layers):
    weights = torch.softmax(scores(q, k, m, *layers).masked_fill(~m, -1e9), dim=-1)
    return torch.bmm(weights.unsqueeze(1), k).squeeze(1), weights


CORPUS = Corpus(
    inputs=lambda batch, dtype: (
        normal(batch, 4, dtype=dtype),
        normal(batch, 5, 4, dtype=dtype, seed=1),
        coins(batch, 5, seed=2),
        normal(6, 16, dtype=dtype, seed=3, scale=0.3),
        normal(6, dtype=dtype, seed=4),
        normal(3, 6, dtype=dtype, seed=5),
        normal(3, dtype=dtype, seed=6),
        normal(1, 3, dtype=dtype, seed=7),
        normal(1, dtype=dtype, seed=8),
    ),
    batched=(0, 1, 2),
    spellings={"as its authors write it": authors, "summed": summed},
    refused={"needed by": shown_outside},
    passed_over={"missing mask": missing_mask, "other activation": other_activation},
    tolerance=1e-4,
)
