"""Scaled dot-product attention: torch's own call, and the ways of writing it out."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.kernels.problems import false_friend, problem

DIM, HEADS, STEPS = 16, 2, 5


def rows():
    return [torch.randn(2, STEPS, DIM)]


class SelfAttention(nn.Module):
    """Joint projection, heads in front of steps, and `attend`."""

    def __init__(self, dim=DIM, heads=HEADS):
        super().__init__()
        self.heads, self.width = heads, dim // heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.register_buffer("bias", torch.tril(torch.ones(8, 8)).view(1, 1, 8, 8))

    def forward(self, x):
        batch, steps, dim = x.shape
        qkv = self.qkv(x).view(batch, steps, 3, self.heads, self.width).permute(2, 0, 3, 1, 4)
        out = self.attend(qkv[0], qkv[1], qkv[2])
        return self.proj(out.transpose(1, 2).reshape(batch, steps, dim))


@problem(rows, batch=(0,), flash_attention=1)
class CausalCall(SelfAttention):
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@problem(rows, dtype=torch.bfloat16, tolerance=6e-2, flash_attention=1)
class CallInBfloat16(SelfAttention):
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, scale=0.5)


@problem(rows, flash_attention=1)
class CausalByHand(SelfAttention):
    def attend(self, q, k, v):
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, : q.size(2), : q.size(2)] == 0, float("-inf"))
        return F.softmax(att, dim=-1) @ v


@problem(rows, flash_attention=1)
class ScaledQueries(SelfAttention):
    """As image transformers do."""

    def attend(self, q, k, v):
        q = q * self.width**-0.5
        return (q @ k.transpose(-2, -1)).softmax(dim=-1) @ v


@problem(rows, flash_attention=1)
class Einsums(SelfAttention):
    def attend(self, q, k, v):
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / self.width**0.5
        return torch.einsum("bhij,bhjd->bhid", torch.softmax(scores, dim=-1), v)


@problem(lambda: [torch.randn(2, STEPS, DIM), torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])], flash_attention=1)
class AdditivePaddingMask(nn.Module):
    def __init__(self, dim=DIM, heads=HEADS):
        super().__init__()
        self.heads, self.width = heads, dim // heads
        self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))

    def split(self, x):
        return x.view(x.size(0), -1, self.heads, self.width).transpose(1, 2)

    def forward(self, x, mask):
        hidden = (1.0 - mask[:, None, None, :].float()) * -10000.0
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.width) + hidden
        context = torch.matmul(nn.Softmax(dim=-1)(scores), v)
        return context.permute(0, 2, 1, 3).contiguous().view(x.shape)


@problem(
    lambda: [torch.randn(2, 3, DIM), torch.randn(2, 7, DIM), torch.arange(7)[None] < torch.tensor([[4], [7]])],
    batch=(0, 1, 2),
    flash_attention=1,
)
class CrossAttention(nn.Module):
    def __init__(self, dim=DIM, heads=HEADS):
        super().__init__()
        self.heads = heads
        self.to_q, self.to_kv = nn.Linear(dim, dim, bias=False), nn.Linear(dim, 2 * dim, bias=False)

    def forward(self, x, context, mask):
        k, v = self.to_kv(context).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (self.to_q(x), k, v))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        return out.transpose(1, 2).flatten(2)


@problem(rows, flash_attention=1)
class SharedKeysRepeated(nn.Module):
    """Four query heads on two heads of keys and values."""

    def __init__(self, dim=DIM):
        super().__init__()
        self.wq, self.wkv = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        q = self.wq(x).view(2, -1, 4, 4).transpose(1, 2)
        k, v = self.wkv(x).view(2, -1, 2, 2, 4).unbind(2)
        k, v = (t.transpose(1, 2).repeat_interleave(2, dim=1) for t in (k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


@problem(rows, flash_attention=1)
class SharedKeysByFlag(nn.Module):
    def __init__(self, dim=DIM):
        super().__init__()
        self.wq, self.wk, self.wv = nn.Linear(dim, dim), nn.Linear(dim, dim // 4), nn.Linear(dim, dim // 4)

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (-1, 4)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


@problem(rows, flash_attention=1)
class RelativeBias(SelfAttention):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(HEADS, STEPS, STEPS))

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.width**-0.5 + self.table.unsqueeze(0)
        return scores.softmax(-1) @ v


@problem(rows, flash_attention=1)
class OneHeadInThreeDimensions(nn.Module):
    def __init__(self, dim=DIM):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x):
        energy = torch.bmm(self.q(x), self.k(x).transpose(1, 2)) / math.sqrt(x.size(-1))
        return x + torch.bmm(torch.softmax(energy, dim=-1), self.v(x))


@problem(rows, flash_attention=1)
class TorchsModule(nn.Module):
    def __init__(self, dim=DIM, heads=HEADS):
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, heads, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


# ---- what only looks like it -----------------------------------------------------------------------------------------


@false_friend("flash_attention", rows)
class SoftmaxOverTheQueries(SelfAttention):
    def attend(self, q, k, v):
        return F.softmax(q @ k.transpose(-2, -1) * self.width**-0.5, dim=-2) @ v


@false_friend("flash_attention", rows)
class CappedScores(SelfAttention):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.width**-0.5
        return F.softmax(torch.tanh(scores / 5.0) * 5.0, dim=-1) @ v


@false_friend("flash_attention", rows)
class LinearAttention(SelfAttention):
    def attend(self, q, k, v):
        return q.softmax(-1) @ (k.softmax(-2).transpose(-2, -1) @ v)


@false_friend("flash_attention", rows)
class SigmoidAttention(SelfAttention):
    def attend(self, q, k, v):
        return torch.sigmoid(q @ k.transpose(-2, -1) * self.width**-0.5) @ v


@false_friend("flash_attention", rows)
class WeightsAreHandedBack(SelfAttention):
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        weights = F.softmax(q @ k.transpose(-2, -1), dim=-1)
        return weights @ v, weights


@false_friend("flash_attention", rows)
class NormedByTheirSum(SelfAttention):
    """Exponentials that are divided by a sum of something else."""

    def attend(self, q, k, v):
        raised = torch.exp(q @ k.transpose(-2, -1) * self.width**-0.5)
        return (raised / (1 + raised.sum(-1, keepdim=True))) @ v
