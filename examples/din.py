"""DIN: a click-through-rate ranker whose attention over the behaviour history depends on the candidate item.

Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018 (arXiv:1706.06978). One row is one
candidate: the user, the item with its category, and the user's last 100 items with theirs. The attention unit sees
`[query, key, query - key, query * key]`, as in the authors' own code.
"""

import torch
import torch.nn as nn

SEED = 1
BATCH = 128
HISTORY = 100
USERS, ITEMS, CATEGORIES = 20_000, 50_000, 1_000


class AttentionUnit(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1 = nn.Linear(4 * dim, hidden[0])
        self.fc2 = nn.Linear(hidden[0], hidden[1])
        self.out = nn.Linear(hidden[1], 1)
        self.scale = dim**0.5

    def forward(self, query, keys, mask):
        queries = query.unsqueeze(1).expand(-1, keys.shape[1], -1)
        features = torch.cat([queries, keys, queries - keys, queries * keys], dim=-1)
        hidden = torch.relu(self.fc1(features))
        hidden = torch.relu(self.fc2(hidden))
        scores = self.out(hidden).squeeze(-1) / self.scale
        scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
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
        keys = torch.cat(
            [self.item_embedding(history_items), self.category_embedding(history_categories)],
            dim=-1,
        )
        positions = torch.arange(keys.shape[1], device=keys.device)
        mask = positions.unsqueeze(0) < length.unsqueeze(1)
        interest = self.attention(query, keys, mask)
        features = torch.cat([profile, query, interest, query * interest], dim=-1)
        return torch.sigmoid(self.mlp(features).squeeze(-1))


def get_init_inputs():
    return [USERS, ITEMS, CATEGORIES]


def zipf(rows, shape, exponent=1.1):
    """Ids by popularity, as logs show them: row r is drawn in proportion to 1 / (r + 1) ** exponent."""
    weights = torch.arange(1, rows + 1, dtype=torch.float64) ** -exponent
    count = int(torch.tensor(shape).prod())
    return torch.multinomial(weights, count, replacement=True).reshape(shape)


def get_inputs():
    return [
        torch.randint(0, USERS, (BATCH,)),
        zipf(ITEMS, (BATCH,)),
        zipf(CATEGORIES, (BATCH,)),
        zipf(ITEMS, (BATCH, HISTORY)),
        zipf(CATEGORIES, (BATCH, HISTORY)),
        torch.randint(1, HISTORY + 1, (BATCH,)),
    ]


def get_workloads():
    items = {"zipf": 1.1, "below": ITEMS}
    categories = {"zipf": 1.1, "below": CATEGORIES}
    return {
        "name": "serving",
        "inputs": [
            {"name": "user", "dtype": "int64", "shape": ["batch"], "values": {"below": USERS}},
            {"name": "item", "dtype": "int64", "shape": ["batch"], "values": items},
            {"name": "category", "dtype": "int64", "shape": ["batch"], "values": categories},
            {"name": "history_items", "dtype": "int64", "shape": ["batch", HISTORY], "values": items},
            {"name": "history_categories", "dtype": "int64", "shape": ["batch", HISTORY], "values": categories},
            {"name": "length", "dtype": "int64", "shape": ["batch"], "values": {"from": 1, "below": HISTORY + 1}},
        ],
        "dims": {"batch": {"serve": [BATCH], "min": 1, "max": 512}},
    }
