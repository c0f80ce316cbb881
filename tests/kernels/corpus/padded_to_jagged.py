"""Spellings and near misses of `padded_to_jagged`."""

from __future__ import annotations

import torch

from kernels.inputs import normal
from tests.kernels.corpus import Corpus

back = torch.ops.aten._padded_dense_to_jagged_forward
CORPUS = Corpus(
    inputs=lambda batch, dtype: (normal(4, 5, 7, dtype=dtype), torch.tensor([0, 2, 2, 7, 9])),
    batched=(),
    spellings={
        "aten": lambda p, o: back(p, [o], 9),
        "behind something": lambda p, o: back(torch.relu(p), [o], 9) * 2,
    },
    passed_over={
        "flattened": lambda p, o: p.flatten(0, 1)[:9],
        "the first of each": lambda p, o: p[:, 0],
    },
)
