"""A DLRM-like ranker as it serves: one user, many candidates. The user's features repeat over the batch.

Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation Systems", 2019
(arXiv:1906.00091). 13 numbers and 20 ids of user and context, 6 ids of the item; every pair of vectors is multiplied.
The workload promises the repetition (`contracts`); the model itself knows nothing of it.
"""

import itertools

import torch
import torch.nn as nn

SEED = 22
CANDIDATES = 512
DENSE = 13
USER_ROWS = [
    1460, 583, 40_000, 40_000, 305, 24, 12517, 633, 3, 40_000, 5683, 40_000, 3194, 27, 14992, 10, 5652, 2173, 4, 18,
]  # fmt: skip
ITEM_ROWS = [40_000, 40_000, 15, 40_000, 105, 1_000]


def mlp(sizes):
    layers = []
    for width, size in itertools.pairwise(sizes):
        layers += [nn.Linear(width, size), nn.ReLU()]
    return nn.Sequential(*layers)


class Model(nn.Module):
    def __init__(self, user_rows, item_rows, dim=32, dense=DENSE, bottom=(512, 256), top=(512, 256)):
        super().__init__()
        torch.manual_seed(SEED)
        self.user_tables = nn.ModuleList(nn.Embedding(count, dim) for count in user_rows)
        self.item_tables = nn.ModuleList(nn.Embedding(count, dim) for count in item_rows)
        self.bottom = mlp([dense, *bottom, dim])
        features = 1 + len(user_rows) + len(item_rows)
        row, column = torch.tril_indices(features, features, offset=-1)
        self.register_buffer("row", row, persistent=False)
        self.register_buffer("column", column, persistent=False)
        self.top = mlp([dim + features * (features - 1) // 2, *top])
        self.head = nn.Linear(top[-1], 1)

    def forward(self, user_dense, user_ids, item_ids):
        x = self.bottom(user_dense)
        embedded = [table(user_ids[:, i]) for i, table in enumerate(self.user_tables)]
        embedded += [table(item_ids[:, i]) for i, table in enumerate(self.item_tables)]
        stacked = torch.stack([x, *embedded], dim=1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        interactions = products[:, self.row, self.column]
        logits = self.head(self.top(torch.cat([x, interactions], dim=1)))
        return torch.sigmoid(logits).squeeze(1)


def get_init_inputs():
    return [USER_ROWS, ITEM_ROWS]


def get_inputs():
    def ids(rows, count):
        return torch.stack([torch.randint(0, below, (count,)) for below in rows], dim=1)

    user = [torch.randn(1, DENSE), ids(USER_ROWS, 1)]
    return [*(row.expand(CANDIDATES, -1).contiguous() for row in user), ids(ITEM_ROWS, CANDIDATES)]


def get_workloads():
    user_ids, item_ids = ({"zipf": 1.1, "below": rows} for rows in (USER_ROWS, ITEM_ROWS))
    return {
        "name": "one user, many candidates",
        "inputs": [
            {"name": "user_dense", "dtype": "float32", "shape": ["batch", DENSE], "values": {"normal": [0.0, 1.0]}},
            {"name": "user_ids", "dtype": "int64", "shape": ["batch", len(USER_ROWS)], "values": user_ids},
            {"name": "item_ids", "dtype": "int64", "shape": ["batch", len(ITEM_ROWS)], "values": item_ids},
        ],
        "dims": {"batch": {"serve": [CANDIDATES], "min": 1, "max": 2048}},
        "contracts": [{"same_over_batch": ["user_ids", "user_dense"]}],
    }
