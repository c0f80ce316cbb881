"""A BERT-like text encoder, with attention as people write it by hand.

Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", 2018 (arXiv:1810.04805). Post-norm residual
blocks, an additive mask `(1 - m) * -10000`, and the first token through a tanh as the text's vector.
"""

import math

import torch
import torch.nn as nn

SEED = 3
BATCH = 8
TOKENS = 64
VOCABULARY = 30_522


class SelfAttention(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.dropout = nn.Dropout(dropout)
        self.dense = nn.Linear(dim, dim)

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.heads, self.head_dim).permute(0, 2, 1, 3)

    def forward(self, x, mask):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.head_dim)
        scores = scores + mask
        probabilities = self.dropout(torch.softmax(scores, dim=-1))
        context = torch.matmul(probabilities, v).permute(0, 2, 1, 3).contiguous()
        return self.dense(context.view(x.size(0), x.size(1), -1))


class Layer(nn.Module):
    def __init__(self, dim, heads, hidden, dropout):
        super().__init__()
        self.attention = SelfAttention(dim, heads, dropout)
        self.attention_norm = nn.LayerNorm(dim, eps=1e-12)
        self.intermediate = nn.Linear(dim, hidden)
        self.activation = nn.GELU()
        self.output = nn.Linear(hidden, dim)
        self.output_norm = nn.LayerNorm(dim, eps=1e-12)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        x = self.attention_norm(x + self.dropout(self.attention(x, mask)))
        hidden = self.output(self.activation(self.intermediate(x)))
        return self.output_norm(x + self.dropout(hidden))


class Model(nn.Module):
    def __init__(self, vocabulary, dim=256, layers=4, heads=4, hidden=1024, max_tokens=128, dropout=0.1):
        super().__init__()
        torch.manual_seed(SEED)
        self.word_embeddings = nn.Embedding(vocabulary, dim, padding_idx=0)
        self.position_embeddings = nn.Embedding(max_tokens, dim)
        self.token_type_embeddings = nn.Embedding(2, dim)
        self.embedding_norm = nn.LayerNorm(dim, eps=1e-12)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(Layer(dim, heads, hidden, dropout) for _ in range(layers))
        self.pooler = nn.Linear(dim, dim)
        self.register_buffer("position_ids", torch.arange(max_tokens).unsqueeze(0))

    def forward(self, input_ids, attention_mask, token_type_ids):
        positions = self.position_ids[:, : input_ids.size(1)]
        x = self.word_embeddings(input_ids) + self.position_embeddings(positions)
        x = x + self.token_type_embeddings(token_type_ids)
        x = self.dropout(self.embedding_norm(x))
        mask = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * -10000.0
        for layer in self.layers:
            x = layer(x, mask)
        return torch.tanh(self.pooler(x[:, 0]))


def get_init_inputs():
    return [VOCABULARY]


def get_inputs():
    weights = torch.arange(1, VOCABULARY + 1, dtype=torch.float64) ** -1.0
    tokens = torch.multinomial(weights, BATCH * TOKENS, replacement=True).reshape(BATCH, TOKENS)
    lengths = torch.randint(TOKENS // 4, TOKENS + 1, (BATCH, 1))
    mask = (torch.arange(TOKENS).unsqueeze(0) < lengths).long()
    return [tokens * mask, mask, torch.zeros_like(mask)]


def get_workloads():
    shape = ["batch", TOKENS]
    return {
        "name": "embedding",
        "inputs": [
            {"name": "input_ids", "dtype": "int64", "shape": shape, "values": {"zipf": 1.0, "below": VOCABULARY}},
            {"name": "attention_mask", "dtype": "int64", "shape": shape, "values": {"bernoulli": 0.8}},
            {"name": "token_type_ids", "dtype": "int64", "shape": shape, "values": {"constant": 0}},
        ],
        "dims": {"batch": {"serve": [BATCH], "min": 1, "max": 64}},
    }
