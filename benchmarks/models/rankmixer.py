"""A RankMixer-like ranker: tokens of features mixed without parameters, then a feed-forward network per token.

Zhu et al., "RankMixer: Scaling Up Ranking Models in Industrial Recommenders", CIKM 2025 (arXiv:2507.15551). Feature
embeddings are joined, cut into tokens and projected; mixing hands head h of every token to token h, a reshape and a
transpose; each token has FFN weights of its own; post-norm residuals; the mean of the tokens feeds the tasks' heads.
16 tokens and 2 layers are the paper's 100 M model; width 256 in place of 768, FFNs of twice the width, 48 fields with
Zipf-distributed ids and 256 candidates a call are ours.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 12
BATCH = 256
DENSE = 24
TASKS = ["finish", "like"]
ROWS = [
    20000, 20000, 20000, 12000, 8000, 5000, 5000, 3000, 2000, 2000, 1500, 1200, 1000, 1000, 800, 600,
    500, 500, 400, 365, 300, 256, 200, 180, 150, 128, 100, 100, 90, 80, 64, 60,
    50, 50, 40, 32, 31, 24, 24, 20, 16, 12, 12, 10, 7, 5, 3, 2,
]  # fmt: skip


class Tokenizer(nn.Module):
    def __init__(self, width, tokens, dim):
        super().__init__()
        self.chunk = width // tokens
        self.projections = nn.ModuleList(nn.Linear(self.chunk, dim) for _ in range(tokens))

    def forward(self, x):
        parts = torch.split(x, self.chunk, dim=-1)
        return torch.stack([projection(p) for projection, p in zip(self.projections, parts, strict=True)], dim=1)


class TokenMixing(nn.Module):
    def __init__(self, tokens):
        super().__init__()
        self.heads = tokens

    def forward(self, x):
        batch, tokens, dim = x.shape
        x = x.reshape(batch, tokens, self.heads, dim // self.heads)
        return x.transpose(1, 2).reshape(batch, self.heads, tokens * dim // self.heads)


class PerTokenFFN(nn.Module):
    def __init__(self, tokens, dim, ratio):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(tokens, dim, dim * ratio) * dim**-0.5)
        self.b1 = nn.Parameter(torch.zeros(tokens, dim * ratio))
        self.w2 = nn.Parameter(torch.randn(tokens, dim * ratio, dim) * (dim * ratio) ** -0.5)
        self.b2 = nn.Parameter(torch.zeros(tokens, dim))

    def forward(self, x):
        hidden = F.gelu(torch.einsum("btd,tdh->bth", x, self.w1) + self.b1)
        return torch.einsum("bth,thd->btd", hidden, self.w2) + self.b2


class Block(nn.Module):
    def __init__(self, tokens, dim, ratio):
        super().__init__()
        self.mixing = TokenMixing(tokens)
        self.mixing_norm = nn.LayerNorm(dim)
        self.ffn = PerTokenFFN(tokens, dim, ratio)
        self.ffn_norm = nn.LayerNorm(dim)

    def forward(self, x):
        x = self.mixing_norm(self.mixing(x) + x)
        return self.ffn_norm(self.ffn(x) + x)


class Model(nn.Module):
    def __init__(self, rows, embedding_dim=16, dense=DENSE, tokens=16, dim=256, layers=2, ratio=2):
        super().__init__()
        torch.manual_seed(SEED)
        self.embeddings = nn.ModuleList(nn.Embedding(count, embedding_dim) for count in rows)
        self.dense = nn.Linear(dense, 2 * tokens)
        self.tokenizer = Tokenizer(len(rows) * embedding_dim + 2 * tokens, tokens, dim)
        self.blocks = nn.ModuleList(Block(tokens, dim, ratio) for _ in range(layers))
        self.heads = nn.ModuleDict({task: nn.Linear(dim, 1) for task in TASKS})
        for head in self.heads.values():
            nn.init.xavier_normal_(head.weight)

    def forward(self, dense, ids):
        embedded = [embedding(ids[:, i]) for i, embedding in enumerate(self.embeddings)]
        x = self.tokenizer(torch.cat([*embedded, self.dense(dense)], dim=-1))
        for block in self.blocks:
            x = block(x)
        pooled = x.mean(dim=1)
        return {task: torch.sigmoid(self.heads[task](pooled)).squeeze(-1) for task in TASKS}


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
        "dims": {"batch": {"serve": [BATCH], "min": 1, "max": 1024}},
    }
