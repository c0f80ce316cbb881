"""MMoE: one ranker for three tasks (click, conversion, like) over shared experts, with a gate and a tower per task.

Ma et al., "Modeling Task Relationships in Multi-task Learning with Multi-gate Mixture-of-Experts", KDD 2018.
"""

import torch
import torch.nn as nn

SEED = 6
BATCH = 512
DENSE = 16
TASKS = ["click", "conversion", "like"]
ROWS = [20000, 50000, 8000, 1200, 600, 300, 120, 64, 5000, 2500, 900, 365, 24, 12, 7, 3]


class Expert(nn.Module):
    def __init__(self, width, hidden, size):
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, size)

    def forward(self, x):
        return torch.relu(self.fc2(torch.relu(self.fc1(x))))


class Tower(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, 1)

    def forward(self, x):
        return torch.sigmoid(self.fc2(torch.relu(self.fc1(x)))).squeeze(-1)


class Model(nn.Module):
    def __init__(self, rows, dim=16, dense=DENSE, experts=8, hidden=256, size=128, tower=64):
        super().__init__()
        torch.manual_seed(SEED)
        self.embeddings = nn.ModuleList(nn.Embedding(count, dim) for count in rows)
        width = len(rows) * dim + dense
        self.experts = nn.ModuleList(Expert(width, hidden, size) for _ in range(experts))
        self.gates = nn.ModuleList(nn.Linear(width, experts) for _ in TASKS)
        self.towers = nn.ModuleList(Tower(size, tower) for _ in TASKS)

    def forward(self, dense, ids):
        embedded = [embedding(ids[:, i]) for i, embedding in enumerate(self.embeddings)]
        x = torch.cat([dense, *embedded], dim=1)
        experts = torch.stack([expert(x) for expert in self.experts], dim=1)
        outputs = {}
        for task, gate, tower in zip(TASKS, self.gates, self.towers, strict=True):
            weights = torch.softmax(gate(x), dim=-1).unsqueeze(-1)
            outputs[task] = tower((weights * experts).sum(dim=1))
        return outputs


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
