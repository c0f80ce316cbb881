"""A Llama-like decoder that scores the next token of a prompt: only the last position's logits are used.

Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023 (arXiv:2302.13971); grouped-query attention
after Ainslie et al., 2023 (arXiv:2305.13245); rotary positions after Su et al., 2021 (arXiv:2104.09864). Written as
decoders usually are: RMSNorm by hand in float32, keys and values repeated for their groups, an additive causal mask.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 2
BATCH = 2
TOKENS = 96
VOCABULARY = 24_000


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        return self.weight * x.to(dtype)


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def apply_rotary(q, k, cos, sin):
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def repeat_kv(x, groups):
    batch, heads, tokens, dim = x.shape
    x = x[:, :, None, :, :].expand(batch, heads, groups, tokens, dim)
    return x.reshape(batch, heads * groups, tokens, dim)


class Attention(nn.Module):
    def __init__(self, dim, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, dim // heads
        self.q_proj = nn.Linear(dim, heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(heads * self.head_dim, dim, bias=False)

    def forward(self, x, cos, sin, mask):
        batch, tokens, _ = x.shape
        q = self.q_proj(x).view(batch, tokens, self.heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(batch, tokens, self.kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(batch, tokens, self.kv_heads, self.head_dim).transpose(1, 2)
        q, k = apply_rotary(q, k, cos, sin)
        k = repeat_kv(k, self.heads // self.kv_heads)
        v = repeat_kv(v, self.heads // self.kv_heads)
        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.head_dim)
        scores = scores + mask
        weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        out = torch.matmul(weights, v)
        return self.o_proj(out.transpose(1, 2).reshape(batch, tokens, -1))


class MLP(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.gate_proj = nn.Linear(dim, hidden, bias=False)
        self.up_proj = nn.Linear(dim, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, dim, heads, kv_heads, hidden):
        super().__init__()
        self.input_norm = RMSNorm(dim)
        self.attention = Attention(dim, heads, kv_heads)
        self.post_attention_norm = RMSNorm(dim)
        self.mlp = MLP(dim, hidden)

    def forward(self, x, cos, sin, mask):
        x = x + self.attention(self.input_norm(x), cos, sin, mask)
        return x + self.mlp(self.post_attention_norm(x))


class Model(nn.Module):
    def __init__(self, vocabulary, dim=384, layers=4, heads=6, kv_heads=2, hidden=1024, max_tokens=256):
        super().__init__()
        torch.manual_seed(SEED)
        self.embed_tokens = nn.Embedding(vocabulary, dim)
        self.layers = nn.ModuleList(Layer(dim, heads, kv_heads, hidden) for _ in range(layers))
        self.norm = RMSNorm(dim)
        self.lm_head = nn.Linear(dim, vocabulary, bias=False)
        head_dim = dim // heads
        frequencies = 1.0 / (10_000 ** (torch.arange(0, head_dim, 2).float() / head_dim))
        angles = torch.outer(torch.arange(max_tokens).float(), frequencies)
        angles = torch.cat((angles, angles), dim=-1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, tokens):
        length = tokens.shape[1]
        x = self.embed_tokens(tokens)
        mask = torch.full((length, length), float("-inf"), device=x.device)
        mask = torch.triu(mask, diagonal=1)
        cos, sin = self.cos[:length], self.sin[:length]
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        logits = self.lm_head(self.norm(x))
        return logits[:, -1]


def get_init_inputs():
    return [VOCABULARY]


def get_inputs():
    weights = torch.arange(1, VOCABULARY + 1, dtype=torch.float64) ** -1.0
    return [torch.multinomial(weights, BATCH * TOKENS, replacement=True).reshape(BATCH, TOKENS)]


def get_workloads():
    tokens = {"zipf": 1.0, "below": VOCABULARY}
    return {
        "name": "next-token",
        "inputs": [{"name": "tokens", "dtype": "int64", "shape": ["batch", TOKENS], "values": tokens}],
        "dims": {"batch": {"serve": [BATCH], "min": 1, "max": 16}},
    }
