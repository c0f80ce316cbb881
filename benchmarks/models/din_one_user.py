"""DIN as it ranks: one user, many candidates. The user's row, history included, repeats over the batch.

Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018 (arXiv:1706.06978). The workload
promises the repetition (`contracts`); the model itself knows nothing of it, as a model that was trained on mixed
batches does not.
"""

import torch
import torch.nn as nn

SEED = 21
CANDIDATES = 128
HISTORY = 100
USERS, ITEMS, CATEGORIES = 20_000, 50_000, 1_000


class AttentionUnit(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1 = nn.Linear(4 * dim, hidden[0])
        self.fc2 = nn.Linear(hidden[0], hidden[1])
        self.out = nn.Linear(hidden[1], 1)

    def forward(self, query, keys, mask):
        queries = query.unsqueeze(1).expand(-1, keys.shape[1], -1)
        features = torch.cat([queries, keys, queries - keys, queries * keys], dim=-1)
        hidden = torch.relu(self.fc2(torch.relu(self.fc1(features))))
        scores = self.out(hidden).squeeze(-1) / keys.shape[-1] ** 0.5
        weights = torch.softmax(scores.masked_fill(~mask, -1e9), dim=-1)
        return torch.bmm(weights.unsqueeze(1), keys).squeeze(1)


class Model(nn.Module):
    def __init__(self, users, items, categories, dim=32, attention=(128, 64), mlp=(200, 80)):
        super().__init__()
        torch.manual_seed(SEED)
        self.user_embedding = nn.Embedding(users, dim)
        self.item_embedding = nn.Embedding(items, dim)
        self.category_embedding = nn.Embedding(categories, dim)
        self.attention = AttentionUnit(2 * dim, attention)
        layers, width = [], dim + 3 * 2 * dim
        for size in mlp:
            layers += [nn.Linear(width, size), nn.PReLU()]
            width = size
        self.mlp = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, user, item, category, history_items, history_categories, length):
        profile = self.user_embedding(user)
        query = torch.cat([self.item_embedding(item), self.category_embedding(category)], dim=-1)
        history = [self.item_embedding(history_items), self.category_embedding(history_categories)]
        keys = torch.cat(history, dim=-1)
        mask = torch.arange(keys.shape[1], device=keys.device).unsqueeze(0) < length.unsqueeze(1)
        interest = self.attention(query, keys, mask)
        features = torch.cat([profile, query, interest, query * interest], dim=-1)
        return torch.sigmoid(self.mlp(features).squeeze(-1))


def get_init_inputs():
    return [USERS, ITEMS, CATEGORIES]


def get_inputs():
    def repeated(row):
        return row.expand(CANDIDATES, *row.shape[1:]).contiguous()

    return [
        repeated(torch.randint(0, USERS, (1,))),
        torch.randint(0, ITEMS, (CANDIDATES,)),
        torch.randint(0, CATEGORIES, (CANDIDATES,)),
        repeated(torch.randint(0, ITEMS, (1, HISTORY))),
        repeated(torch.randint(0, CATEGORIES, (1, HISTORY))),
        repeated(torch.randint(1, HISTORY + 1, (1,))),
    ]


def get_workloads():
    items = {"zipf": 1.1, "below": ITEMS}
    categories = {"zipf": 1.1, "below": CATEGORIES}
    return {
        "name": "one user, many candidates",
        "inputs": [
            {"name": "user", "dtype": "int64", "shape": ["batch"], "values": {"below": USERS}},
            {"name": "item", "dtype": "int64", "shape": ["batch"], "values": items},
            {"name": "category", "dtype": "int64", "shape": ["batch"], "values": categories},
            {"name": "history_items", "dtype": "int64", "shape": ["batch", HISTORY], "values": items},
            {"name": "history_categories", "dtype": "int64", "shape": ["batch", HISTORY], "values": categories},
            {"name": "length", "dtype": "int64", "shape": ["batch"], "values": {"from": 1, "below": HISTORY + 1}},
        ],
        "dims": {"batch": {"serve": [CANDIDATES], "min": 1, "max": 512}},
        "contracts": [{"same_over_batch": ["user", "history_items", "history_categories", "length"]}],
    }
