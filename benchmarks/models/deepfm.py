"""DeepFM: a factorization machine and a deep network over the same embeddings of 26 categories and 13 numbers.

Guo et al., "DeepFM: A Factorization-Machine based Neural Network for CTR Prediction", IJCAI 2017 (arXiv:1703.04247).
Second order as it is usually written, half of (square of the sum minus sum of the squares); first order out of tables
of width 1. Vectors of 10 and three layers of 400 with dropout 0.5 are the paper's for Criteo; the tables have the sizes
of Criteo's public display advertising data, capped at 20,000 rows; 2,048 rows a call are ours.
"""

import torch
import torch.nn as nn

SEED = 13
BATCH = 2048
DENSE = 13
CAP = 20_000
CRITEO_ROWS = [
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194,
    27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572,
]  # fmt: skip
ROWS = [min(rows, CAP) for rows in CRITEO_ROWS]


class FM(nn.Module):
    def forward(self, fields):
        square_of_sum = torch.pow(torch.sum(fields, dim=1, keepdim=True), 2)
        sum_of_square = torch.sum(fields * fields, dim=1, keepdim=True)
        return 0.5 * torch.sum(square_of_sum - sum_of_square, dim=2)


class Model(nn.Module):
    def __init__(self, rows, dense=DENSE, dim=10, hidden=(400, 400, 400), dropout=0.5):
        super().__init__()
        torch.manual_seed(SEED)
        self.first_order = nn.ModuleList(nn.Embedding(count, 1) for count in rows)
        self.second_order = nn.ModuleList(nn.Embedding(count, dim) for count in rows)
        for table in [*self.first_order, *self.second_order]:
            nn.init.normal_(table.weight, std=0.1)
        self.dense_first_order = nn.Linear(dense, 1)
        self.dense_second_order = nn.Parameter(torch.randn(dense, dim) * 0.1)
        self.fm = FM()
        layers, width = [], (len(rows) + dense) * dim
        for size in hidden:
            layers += [nn.Linear(width, size), nn.ReLU(), nn.Dropout(dropout)]
            width = size
        self.deep = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, dense, ids):
        first = [table(ids[:, i]) for i, table in enumerate(self.first_order)]
        linear = torch.cat(first, dim=1).sum(dim=1, keepdim=True) + self.dense_first_order(dense)
        vectors = [table(ids[:, i]) for i, table in enumerate(self.second_order)]
        numbers = dense.unsqueeze(-1) * self.dense_second_order
        fields = torch.cat([torch.stack(vectors, dim=1), numbers], dim=1)
        logits = linear + self.fm(fields) + self.deep(fields.flatten(1))
        return torch.sigmoid(logits).squeeze(1)


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
        "dims": {"batch": {"serve": [BATCH], "min": 1, "max": 4096}},
    }
