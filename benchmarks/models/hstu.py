"""HSTU: generative retrieval over a user's last 200 items; attention by a pointwise SiLU in place of a softmax.

Zhai et al., "Actions Speak Louder than Words: Trillion-Parameter Sequential Transducers for Generative
Recommendations", ICML 2024 (arXiv:2402.17152). After the authors' public research code, over padded sequences: one
projection for u, v, q and k; a bias of each pair of positions, shared by the heads, from their distance and from the
bucketed time between them; `silu(q k^T + bias) / n`, causal; the result normed and gated by u. The last item's state
is scored against candidates by a cosine at temperature 0.05. Width 256, 8 heads of 32, 200 positions and 128 time
buckets are theirs for MovieLens-20M (large); 3 blocks in place of 16, 20,000 items, and 4 users with 100 candidates a
call are ours.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 11
BATCH = 4
HISTORY = 200
CANDIDATES = 100
ITEMS = 20_000
SECONDS = 10_000_000


class RelativeBias(nn.Module):
    """What two positions' distance, and the time between their events, add to their score: [batch, n, n]."""

    def __init__(self, length, buckets=128):
        super().__init__()
        self.length, self.buckets = length, buckets
        self.time = nn.Parameter(torch.empty(buckets + 1).normal_(0, 0.02))
        self.position = nn.Parameter(torch.empty(2 * length - 1).normal_(0, 0.02))

    def forward(self, timestamps):
        batch, n = timestamps.shape
        t = F.pad(self.position, [0, n]).repeat(n)
        t = t[:-n].reshape(1, n, 3 * n - 2)
        r = (2 * n - 1) // 2
        by_position = t[:, :, r:-r]
        following = torch.cat([timestamps, timestamps[:, n - 1 : n]], dim=1)
        apart = following[:, 1:].unsqueeze(2) - following[:, :-1].unsqueeze(1)
        bucket = (torch.log(torch.abs(apart).clamp(min=1)) / 0.301).long()
        bucket = torch.clamp(bucket, min=0, max=self.buckets)
        by_time = torch.index_select(self.time, dim=0, index=bucket.view(-1)).view(batch, n, n)
        return by_position + by_time


class Block(nn.Module):
    def __init__(self, dim, heads, attention_dim, linear_dim, length, dropout):
        super().__init__()
        self.dim, self.heads, self.attention_dim, self.linear_dim = dim, heads, attention_dim, linear_dim
        self.sizes = [linear_dim * heads, linear_dim * heads, attention_dim * heads, attention_dim * heads]
        self.uvqk = nn.Parameter(torch.empty(dim, sum(self.sizes)).normal_(0, 0.06))
        self.bias = RelativeBias(length)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(linear_dim * heads, dim)

    def forward(self, x, timestamps, causal):
        batch, n, _ = x.shape
        normed = F.layer_norm(x, [self.dim], eps=1e-6)
        u, v, q, k = torch.split(F.silu(torch.matmul(normed, self.uvqk)), self.sizes, dim=-1)
        q = q.view(batch, n, self.heads, self.attention_dim)
        k = k.view(batch, n, self.heads, self.attention_dim)
        v = v.view(batch, n, self.heads, self.linear_dim)
        scores = torch.einsum("bnhd,bmhd->bhnm", q, k)
        scores = scores + self.bias(timestamps).unsqueeze(1)
        weights = F.silu(scores) / n
        weights = weights * causal
        attended = torch.einsum("bhnm,bmhd->bnhd", weights, v).reshape(batch, n, self.heads * self.linear_dim)
        gated = u * F.layer_norm(attended, [self.heads * self.linear_dim], eps=1e-6)
        return self.output(self.dropout(gated)) + x


class Model(nn.Module):
    def __init__(self, items, length, dim=256, blocks=3, heads=8, attention_dim=32, linear_dim=32, dropout=0.2):
        super().__init__()
        torch.manual_seed(SEED)
        self.dim = dim
        self.item_embedding = nn.Embedding(items, dim, padding_idx=0)
        nn.init.normal_(self.item_embedding.weight, std=0.05)
        self.position_embedding = nn.Embedding(length, dim)
        nn.init.normal_(self.position_embedding.weight, std=dim**-0.5)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(dim, heads, attention_dim, linear_dim, length, dropout) for _ in range(blocks)
        )
        self.register_buffer("causal", torch.tril(torch.ones(length, length)), persistent=False)

    def forward(self, history, timestamps, length, candidates):
        batch, n = history.shape
        positions = torch.arange(n, device=history.device).unsqueeze(0)
        valid = (positions < length.unsqueeze(1)).unsqueeze(-1).float()
        x = self.item_embedding(history) * (self.dim**0.5) + self.position_embedding(positions)
        x = self.dropout(x) * valid
        for block in self.blocks:
            x = block(x, timestamps, self.causal) * valid
        user = x[torch.arange(batch, device=x.device), length - 1]
        user = F.normalize(user, dim=-1, eps=1e-6)
        items = F.normalize(self.item_embedding(candidates), dim=-1, eps=1e-6)
        return torch.bmm(items, user.unsqueeze(-1)).squeeze(-1) / 0.05


def get_init_inputs():
    return [ITEMS, HISTORY]


def zipf(rows, shape, exponent=1.1):
    """Ids by popularity, as logs show them: row r is drawn in proportion to 1 / (r + 1) ** exponent."""
    weights = torch.arange(1, rows + 1, dtype=torch.float64) ** -exponent
    count = int(torch.tensor(shape).prod())
    return torch.multinomial(weights, count, replacement=True).reshape(shape)


def get_inputs():
    return [
        1 + zipf(ITEMS - 1, (BATCH, HISTORY)),
        torch.randint(0, SECONDS, (BATCH, HISTORY)).sort(dim=1).values,
        torch.randint(1, HISTORY + 1, (BATCH,)),
        1 + zipf(ITEMS - 1, (BATCH, CANDIDATES)),
    ]


def get_workloads():
    items = {"zipf": 1.1, "from": 1, "below": ITEMS}
    seconds = {"from": 0, "below": SECONDS}
    return {
        "name": "retrieval",
        "inputs": [
            {"name": "history", "dtype": "int64", "shape": ["batch", HISTORY], "values": items},
            {"name": "timestamps", "dtype": "int64", "shape": ["batch", HISTORY], "values": seconds},
            {"name": "length", "dtype": "int64", "shape": ["batch"], "values": {"from": 1, "below": HISTORY + 1}},
            {"name": "candidates", "dtype": "int64", "shape": ["batch", CANDIDATES], "values": items},
        ],
        "dims": {"batch": {"serve": [BATCH], "min": 1, "max": 32}},
    }
