"""Spellings and near misses of `fm_second_order`."""

from __future__ import annotations

from kernels.inputs import normal
from tests.kernels.corpus import Corpus

CORPUS = Corpus(
    inputs=lambda batch, dtype: (normal(batch, 4, 6, dtype=dtype, scale=0.5),),
    batched=(0,),
    spellings={
        "as DeepFM writes it": lambda x: 0.5 * (x.sum(1).pow(2) - x.pow(2).sum(1)).sum(1, keepdim=True),
        "flat": lambda x: 0.5 * (x.sum(dim=1) ** 2 - (x**2).sum(dim=1)).sum(-1),
        "kept fields": lambda x: (x.sum(1, True).square() - (x * x).sum(1, True)).sum(-1) * 0.5,
        "halved by division": lambda x: (x.sum(1) ** 2 - (x * x).sum(1)).sum(1) / 2,
        "halved inside": lambda x: (0.5 * (x.sum(1) ** 2 - (x**2).sum(1))).sum(-1),
    },
    refused={
        "not over the fields": lambda x: 0.5 * (x.sum(2) ** 2 - (x**2).sum(2)).sum(1),
        "needed by": lambda x: (lambda s: 0.5 * (s**2 - (x**2).sum(1)).sum(1) + s.sum())(x.sum(1)),
    },
    passed_over={
        "not halved": lambda x: (x.sum(1) ** 2 - (x**2).sum(1)).sum(1),
        "one value per dimension": lambda x: 0.5 * (x.sum(1) ** 2 - (x**2).sum(1)),
        "the wrong way round": lambda x: 0.5 * ((x**2).sum(1) - x.sum(1) ** 2).sum(1),
        "cubes": lambda x: 0.5 * (x.sum(1) ** 3 - (x**3).sum(1)).sum(1),
    },
    tolerance_bfloat16=2e-1,
)
