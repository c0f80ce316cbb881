"""A training step of a DLRM-like click-through-rate ranker: 26 tables, pairwise dot products, Adagrad on log loss.

Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation Systems", 2019
(arXiv:1906.00091). The tables have the sizes of Criteo's public display advertising data, capped at 40,000 rows;
widths, batch and learning rate are ours.
"""

import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 31
BATCH = 512
DENSE = 13
CAP = 40_000
CRITEO_ROWS = [
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194,
    27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572,
]  # fmt: skip
ROWS = [min(rows, CAP) for rows in CRITEO_ROWS]


def mlp(sizes):
    layers = []
    for width, size in itertools.pairwise(sizes):
        layers += [nn.Linear(width, size), nn.ReLU()]
    return nn.Sequential(*layers)


class Model(nn.Module):
    def __init__(self, rows, dim=32, dense=DENSE, bottom=(512, 256), top=(512, 256)):
        super().__init__()
        torch.manual_seed(SEED)
        self.tables = nn.ModuleList(nn.Embedding(count, dim) for count in rows)
        for table in self.tables:
            nn.init.uniform_(table.weight, -(table.num_embeddings**-0.5), table.num_embeddings**-0.5)
        self.bottom = mlp([dense, *bottom, dim])
        features = len(rows) + 1
        row, column = torch.tril_indices(features, features, offset=-1)
        self.register_buffer("row", row, persistent=False)
        self.register_buffer("column", column, persistent=False)
        self.top = mlp([dim + features * (features - 1) // 2, *top])
        self.head = nn.Linear(top[-1], 1)

    def forward(self, dense, ids):
        x = self.bottom(dense)
        embedded = [table(ids[:, i]) for i, table in enumerate(self.tables)]
        stacked = torch.stack([x, *embedded], dim=1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        interactions = products[:, self.row, self.column]
        return self.head(self.top(torch.cat([x, interactions], dim=1))).squeeze(1)


def loss(logits, click):
    return F.binary_cross_entropy_with_logits(logits, click)


def get_init_inputs():
    return [ROWS]


def zipf(rows, count, exponent=1.1):
    weights = torch.arange(1, rows + 1, dtype=torch.float64) ** -exponent
    return torch.multinomial(weights, count, replacement=True)


def get_inputs():
    return [torch.randn(BATCH, DENSE), torch.stack([zipf(rows, BATCH) for rows in ROWS], dim=1)]


def get_targets():
    return [(torch.rand(BATCH) < 0.25).float()]


def get_workloads():
    ids = {"zipf": 1.1, "below": ROWS}
    return {
        "name": "training",
        "mode": "training",
        "loss": "loss",
        "optimizer": {"name": "adagrad", "lr": 0.01},
        "inputs": [
            {"name": "dense", "dtype": "float32", "shape": [BATCH, DENSE], "values": {"normal": [0.0, 1.0]}},
            {"name": "ids", "dtype": "int64", "shape": [BATCH, len(ROWS)], "values": ids},
            {"name": "click", "dtype": "float32", "shape": [BATCH], "values": {"bernoulli": 0.25}},
        ],
    }
