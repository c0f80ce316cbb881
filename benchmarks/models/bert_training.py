"""A training step of a BERT-like masked language model: masked tokens are predicted from their positions, with AdamW.

Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", 2018 (arXiv:1810.04805). Post-norm residual
blocks with attention as people write it by hand; the output layer shares its weights with the token embedding. Two
layers of width 128, as BERT-Tiny has; batch, length and learning rate are ours.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 32
BATCH = 16
TOKENS = 64
MASKED = 10
VOCABULARY = 30_522


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.dense = nn.Linear(dim, dim)

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.heads, self.head_dim).permute(0, 2, 1, 3)

    def forward(self, x, mask):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.head_dim) + mask
        context = torch.matmul(torch.softmax(scores, dim=-1), v).permute(0, 2, 1, 3).contiguous()
        return self.dense(context.view(x.size(0), x.size(1), -1))


class Layer(nn.Module):
    def __init__(self, dim, heads, hidden, dropout):
        super().__init__()
        self.attention = SelfAttention(dim, heads)
        self.attention_norm = nn.LayerNorm(dim, eps=1e-12)
        self.intermediate = nn.Linear(dim, hidden)
        self.output = nn.Linear(hidden, dim)
        self.output_norm = nn.LayerNorm(dim, eps=1e-12)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        x = self.attention_norm(x + self.dropout(self.attention(x, mask)))
        hidden = self.output(F.gelu(self.intermediate(x)))
        return self.output_norm(x + self.dropout(hidden))


class Model(nn.Module):
    def __init__(self, vocabulary, dim=128, layers=2, heads=2, hidden=512, max_tokens=128, dropout=0.1):
        super().__init__()
        torch.manual_seed(SEED)
        self.word_embeddings = nn.Embedding(vocabulary, dim)
        self.position_embeddings = nn.Embedding(max_tokens, dim)
        self.embedding_norm = nn.LayerNorm(dim, eps=1e-12)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(Layer(dim, heads, hidden, dropout) for _ in range(layers))
        self.transform = nn.Linear(dim, dim)
        self.transform_norm = nn.LayerNorm(dim, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        nn.init.normal_(self.word_embeddings.weight, std=0.02)
        self.register_buffer("position_ids", torch.arange(max_tokens).unsqueeze(0))

    def forward(self, input_ids, attention_mask, masked_positions):
        positions = self.position_ids[:, : input_ids.size(1)]
        x = self.word_embeddings(input_ids) + self.position_embeddings(positions)
        x = self.dropout(self.embedding_norm(x))
        mask = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * -10000.0
        for layer in self.layers:
            x = layer(x, mask)
        chosen = x.gather(1, masked_positions.unsqueeze(-1).expand(-1, -1, x.size(-1)))
        hidden = self.transform_norm(F.gelu(self.transform(chosen)))
        return F.linear(hidden, self.word_embeddings.weight, self.bias)


def loss(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def get_init_inputs():
    return [VOCABULARY]


def zipf(*shape):
    weights = torch.arange(1, VOCABULARY + 1, dtype=torch.float64) ** -1.0
    return torch.multinomial(weights, math.prod(shape), replacement=True).reshape(shape)


def get_inputs():
    lengths = torch.randint(TOKENS // 4, TOKENS + 1, (BATCH, 1))
    mask = (torch.arange(TOKENS).unsqueeze(0) < lengths).long()
    return [zipf(BATCH, TOKENS) * mask, mask, torch.randint(0, TOKENS, (BATCH, MASKED))]


def get_targets():
    return [zipf(BATCH, MASKED)]


def get_workloads():
    tokens = {"zipf": 1.0, "below": VOCABULARY}
    return {
        "name": "training",
        "mode": "training",
        "loss": "loss",
        "optimizer": {"name": "adamw", "lr": 1e-4},
        "inputs": [
            {"name": "input_ids", "dtype": "int64", "shape": [BATCH, TOKENS], "values": tokens},
            {"name": "attention_mask", "dtype": "int64", "shape": [BATCH, TOKENS], "values": {"bernoulli": 0.8}},
            {"name": "masked_positions", "dtype": "int64", "shape": [BATCH, MASKED], "values": {"below": TOKENS}},
            {"name": "labels", "dtype": "int64", "shape": [BATCH, MASKED], "values": tokens},
        ],
    }
