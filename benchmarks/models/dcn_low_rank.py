"""DCN-V2 with low-rank cross layers over a DLRM's features: `x0 * (x V^T W^T + b) + x`.

Wang et al., "DCN V2: Improved Deep & Cross Network and Practical Lessons for Web-scale Learning to Rank Systems", 2021
(arXiv:2008.13535); bottom MLP, cross layers, then the top MLP one after the other, as MLPerf's DLRM-DCNv2 has them, and
three cross layers as there; vectors of 32 in place of 128, rank 128 in place of 512, halved MLPs, Criteo's tables
capped at 20,000 rows, and 1,024 rows a call are ours.
"""

import itertools

import torch
import torch.nn as nn

SEED = 14
BATCH = 1024
DENSE = 13
CAP = 20_000
CRITEO_ROWS = [
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194,
    27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572,
]  # fmt: skip
ROWS = [min(rows, CAP) for rows in CRITEO_ROWS]


def mlp(sizes):
    layers = []
    for width, size in itertools.pairwise(sizes):
        linear = nn.Linear(width, size)
        nn.init.normal_(linear.weight, std=(2 / (width + size)) ** 0.5)
        nn.init.normal_(linear.bias, std=size**-0.5)
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers)


class LowRankCross(nn.Module):
    def __init__(self, width, layers, rank):
        super().__init__()
        self.v = nn.ParameterList(nn.init.xavier_normal_(torch.empty(rank, width)) for _ in range(layers))
        self.w = nn.ParameterList(nn.init.xavier_normal_(torch.empty(width, rank)) for _ in range(layers))
        self.bias = nn.ParameterList(torch.zeros(width) for _ in range(layers))

    def forward(self, x0):
        x = x0
        for v, w, bias in zip(self.v, self.w, self.bias, strict=True):
            low = torch.nn.functional.linear(x, v)
            x = x0 * (torch.nn.functional.linear(low, w) + bias) + x
        return x


class Model(nn.Module):
    def __init__(self, rows, dim=32, dense=DENSE, bottom=(256, 128), cross_layers=3, rank=128, top=(512, 512, 256)):
        super().__init__()
        torch.manual_seed(SEED)
        self.tables = nn.ModuleList(nn.Embedding(count, dim) for count in rows)
        self.bottom = mlp([dense, *bottom, dim])
        width = (len(rows) + 1) * dim
        self.cross = LowRankCross(width, cross_layers, rank)
        self.top = mlp([width, *top])
        self.head = nn.Linear(top[-1], 1)
        nn.init.xavier_normal_(self.head.weight)

    def forward(self, dense, ids):
        embedded = [table(ids[:, i]) for i, table in enumerate(self.tables)]
        x = torch.cat([self.bottom(dense), *embedded], dim=1)
        return torch.sigmoid(self.head(self.top(self.cross(x)))).squeeze(1)


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
