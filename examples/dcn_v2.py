"""DCN-V2: a ranker that crosses features explicitly, with full-matrix cross layers beside a deep tower.

Wang et al., "DCN V2: Improved Deep & Cross Network and Practical Lessons for Web-scale Learning to Rank Systems", 2021
(arXiv:2008.13535). All categorical features share one table; each column is shifted to its own rows.
"""

import torch
import torch.nn as nn

SEED = 5
BATCH = 512
DENSE = 13
ROWS = [
    1460, 583, 40000, 40000, 305, 24, 12517, 633, 3, 40000, 5683, 40000, 3194,
    27, 14992, 40000, 10, 5652, 2173, 4, 40000, 18, 15, 40000, 105, 40000,
]  # fmt: skip


class CrossNetwork(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x0):
        x = x0
        for layer in self.layers:
            x = x0 * layer(x) + x
        return x


class Model(nn.Module):
    def __init__(self, rows, dim=16, dense=DENSE, cross_layers=3, deep=(768, 512), dropout=0.1):
        super().__init__()
        torch.manual_seed(SEED)
        self.embedding = nn.Embedding(sum(rows), dim)
        offsets = torch.tensor([0, *rows[:-1]]).cumsum(0)
        self.register_buffer("offsets", offsets)
        width = len(rows) * dim + dense
        self.dense_norm = nn.BatchNorm1d(dense)
        self.cross = CrossNetwork(width, cross_layers)
        layers, size = [], width
        for hidden in deep:
            layers += [nn.Linear(size, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(dropout)]
            size = hidden
        self.deep = nn.Sequential(*layers)
        self.head = nn.Linear(width + size, 1)

    def forward(self, dense, ids):
        embedded = self.embedding(ids + self.offsets).flatten(1)
        x0 = torch.cat([embedded, self.dense_norm(dense)], dim=1)
        features = torch.cat([self.cross(x0), self.deep(x0)], dim=1)
        return torch.sigmoid(self.head(features)).squeeze(1)


def get_init_inputs():
    return [ROWS]


def zipf(rows, count, exponent=1.1):
    """Ids by popularity, as logs show them: row r is drawn in proportion to 1 / (r + 1) ** exponent."""
    weights = torch.arange(1, rows + 1, dtype=torch.float64) ** -exponent
    return torch.multinomial(weights, count, replacement=True)


def get_inputs():
    return [torch.randn(BATCH, DENSE), torch.stack([zipf(rows, BATCH) for rows in ROWS], dim=1)]


def get_workloads():
    ids = {"zipf": 1.1, "below": ROWS}
    return {
        "name": "serving",
        "inputs": [
            {"name": "dense", "dtype": "float32", "shape": ["batch", DENSE], "values": {"normal": [0.0, 1.0]}},
            {"name": "ids", "dtype": "int64", "shape": ["batch", len(ROWS)], "values": ids},
        ],
        "dims": {"batch": {"serve": [BATCH], "min": 1, "max": 2048}},
    }
