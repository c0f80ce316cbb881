"""Whole blocks and small models, in which operations stand beside each other."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.kernels.problems import problem
from tests.kernels.problems.attention import SelfAttention
from tests.kernels.problems.gates import SwiGlu
from tests.kernels.problems.interactions import Cross
from tests.kernels.problems.rotary import rotate_half

DIM, STEPS = 16, 5


def rows():
    return [torch.randn(2, STEPS, DIM)]


class CausalAttention(SelfAttention):
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@problem(lambda: [torch.randint(0, 11, (2, STEPS))], layer_norm=1, add_layer_norm=4, flash_attention=2)
class SmallGpt(nn.Module):
    """Two blocks; the first norm follows a sum that broadcasts."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2, self.attn = nn.LayerNorm(DIM), nn.LayerNorm(DIM), CausalAttention()
            self.mlp = nn.Sequential(nn.Linear(DIM, 32), nn.GELU(), nn.Linear(32, DIM))

        def forward(self, x):
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))

    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(11, DIM), nn.Embedding(8, DIM)
        self.h, self.ln_f = nn.ModuleList(self.Block() for _ in range(2)), nn.LayerNorm(DIM)
        self.lm_head = nn.Linear(DIM, 11, bias=False)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.size(1)))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x)[:, [-1], :])


@problem(
    lambda: [torch.randn(2, STEPS, DIM), torch.randn(STEPS, 8), torch.randn(STEPS, 8)],
    batch=(0,),
    rms_norm=1,
    add_rms_norm=1,
    rope=2,
    flash_attention=1,
    gated_activation=1,
)
class LlamaBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(DIM, eps=1e-5), nn.RMSNorm(DIM, eps=1e-5)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(DIM, DIM, bias=False) for _ in range(4))
        self.feed_forward = SwiGlu(DIM, 24)

    def forward(self, x, cos, sin):
        h = self.attention_norm(x)
        q, k, v = (w(h).unflatten(-1, (2, 8)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        q, k = (t * cos + rotate_half(t) * sin for t in (q, k))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.wo(out.transpose(1, 2).flatten(2))
        return x + self.feed_forward(self.ffn_norm(x))


@problem(rows, add_layer_norm=2, flash_attention=1)
class PostNormEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(DIM, 4, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.linear1, self.linear2 = nn.Linear(DIM, 32), nn.Linear(32, DIM)

    def forward(self, x):
        x = self.norm1(x + self.attention(x, x, x, need_weights=False)[0])
        return self.norm2(x + self.linear2(F.relu(self.linear1(x))))


@problem(
    lambda: [torch.randn(3, 4), torch.randint(0, 9, (3, 3))],
    batch=(0, 1),
    embedding_lookup=2,
    fm_second_order=1,
)
class DeepFm(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Embedding(27, 1), nn.Embedding(27, 6)
        self.register_buffer("offsets", torch.tensor([0, 9, 18]))
        self.mlp = nn.Sequential(nn.Linear(22, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, dense, ids):
        ids = ids + self.offsets
        v = self.second(ids)
        fm = 0.5 * (v.sum(1).pow(2) - v.pow(2).sum(1)).sum(1, keepdim=True)
        deep = self.mlp(torch.cat([v.flatten(1), dense], 1))
        return torch.sigmoid(self.first(ids).sum(1) + fm + deep)


@problem(
    lambda: [torch.randn(3, 4), *[t for _ in range(2) for t in (torch.randint(0, 9, (5,)), torch.tensor([0, 1, 3]))]],
    embedding_bag=2,
    dot_interaction=1,
)
class SmallDlrm(nn.Module):
    def __init__(self):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(9, 6, mode="sum") for _ in range(2))
        self.bottom, self.top = nn.Sequential(nn.Linear(4, 6), nn.ReLU()), nn.Linear(9, 1)
        i, j = torch.tril_indices(3, 3, -1)
        self.register_buffer("li", i)
        self.register_buffer("lj", j)

    def forward(self, dense, a, a_offsets, b, b_offsets):
        x = self.bottom(dense)
        stacked = torch.stack([x, self.bags[0](a, a_offsets), self.bags[1](b, b_offsets)], dim=1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))[:, self.li, self.lj]
        return torch.sigmoid(self.top(torch.cat([x, products], dim=1)))


@problem(lambda: [torch.randint(0, 9, (3, 3))], batch=(0,), embedding_lookup=1, cross_layer=3)
class SmallDcn(Cross):
    def __init__(self):
        super().__init__(layers=3)
        self.table = nn.Embedding(27, 3)
        self.register_buffer("offsets", torch.tensor([0, 9, 18]))
        self.pad = nn.Linear(9, 10)

    def step(self, x0, x, layer):
        return x0 * layer(x) + x

    def forward(self, ids):
        return super().forward(self.pad(self.table(ids + self.offsets).flatten(1)))


@problem(lambda: [torch.randint(0, 9, (2, STEPS))], masked_pooling=1, add_layer_norm=1, layer_norm=1, flash_attention=1)
class SequenceRecommender(nn.Module):
    """Causal self-attention over a history, and the mean of what is there."""

    def __init__(self):
        super().__init__()
        self.items, self.positions = nn.Embedding(9, DIM, padding_idx=0), nn.Parameter(torch.randn(STEPS, DIM))
        self.norm, self.last = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.attention = CausalAttention()

    def forward(self, ids):
        x = self.items(ids) + self.positions
        x = self.last(x + self.attention(self.norm(x)))
        mask = (ids > 0).unsqueeze(-1).float()
        return (x * mask).sum(1) / mask.sum(1).clamp(min=1)


@problem(lambda: [torch.randn(4, 6), torch.randint(0, 2, (4, 2)).float()], batch=(0, 1), gated_sum=2, weighted_bce=2)
class TwoTasksTrained(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(6, 5) for _ in range(3))
        self.gates, self.towers = (nn.ModuleList(nn.Linear(n, m) for _ in range(2)) for n, m in ((6, 3), (5, 1)))

    def forward(self, x, labels):
        experts = torch.stack([F.relu(e(x)) for e in self.experts], dim=1)
        loss = 0
        for task in range(2):
            weights = F.softmax(self.gates[task](x), dim=-1)
            mixed = torch.sum(weights.unsqueeze(-1) * experts, dim=1)
            loss = loss + F.binary_cross_entropy_with_logits(self.towers[task](mixed).squeeze(1), labels[:, task])
        return loss


@problem(lambda: [torch.randn(2, STEPS, DIM), torch.randn(2, DIM)], modulate=2, flash_attention=1)
class ConditionedBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(DIM, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.attn, self.mlp = CausalAttention(), nn.Sequential(nn.Linear(DIM, 32), nn.GELU("tanh"), nn.Linear(32, DIM))
        self.ada = nn.Linear(DIM, 6 * DIM)

    def forward(self, x, c):
        a, b, g, d, e, h = (t.unsqueeze(1) for t in self.ada(F.silu(c)).chunk(6, -1))
        x = x + g * self.attn(self.norm1(x) * (1 + b) + a)
        return x + h * self.mlp(self.norm2(x) * (1 + e) + d)
