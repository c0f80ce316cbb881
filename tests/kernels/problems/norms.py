"""Norms over the last dimension, with a residual add before them or a GELU behind."""

import torch
from torch import nn

from tests.kernels.problems import false_friend, problem

WIDTH = 16


def rows():
    return [torch.randn(2, 3, WIDTH)]


@problem(rows, [WIDTH], batch=(0,), rms_norm=1)
class RmsNormByHand(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        return self._norm(x.float()).type_as(x) * self.weight


@problem(rows, [WIDTH], rms_norm=2)
class RmsNormModules(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.first, self.second = nn.RMSNorm(dim, eps=1e-5), nn.RMSNorm(dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        return self.second(self.proj(self.first(x)))


@problem(rows, [WIDTH], dtype=torch.bfloat16, tolerance=6e-2, add_rms_norm=1)
class ResidualInBfloat16(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.up = nn.Linear(dim, dim)

    def forward(self, x):
        residual = x + self.up(x)
        wide = residual.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype), residual


@problem(rows, [WIDTH], add_rms_norm=1)
class OnePlusWeight(nn.Module):
    """The weight is kept around zero and one is added to it."""

    def __init__(self, dim):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(dim))
        self.linear = nn.Linear(dim, dim)

    def forward(self, x):
        x = x + self.linear(x)
        normed = x * torch.rsqrt(torch.mean(x**2, dim=-1, keepdim=True) + 1e-6)
        return normed * (1 + self.scale), x


@problem(rows, [WIDTH], rms_norm=1)
class MeanBySum(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        variance = (x * x).sum(dim=-1, keepdim=True) / x.shape[-1]
        return x / torch.sqrt(variance + 1e-5) * self.weight


@problem(lambda: [torch.randn(2, 4, 3, 8) for _ in range(2)], [8], batch=(0, 1), rms_norm=2)
class QueryKeyNorm(nn.Module):
    """Queries and keys are normed head by head."""

    def __init__(self, dim):
        super().__init__()
        self.q_norm, self.k_norm = nn.RMSNorm(dim, eps=1e-6), nn.RMSNorm(dim, eps=1e-6)

    def forward(self, q, k):
        return self.q_norm(q) @ self.k_norm(k).transpose(-1, -2)


@problem(rows, [WIDTH], layer_norm=1)
class LayerNormByHand(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(features))
        self.beta = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        var = x.var(dim=-1, keepdim=True, unbiased=False)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


@problem(rows, [WIDTH], layer_norm=1)
class LayerNormByVarMean(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.g = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        var, mean = torch.var_mean(x, dim=-1, unbiased=False, keepdim=True)
        return (x - mean) * torch.rsqrt(var + 1e-5) * self.g


@problem(rows, [WIDTH], layer_norm=1)
class LayerNormGelu(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 2 * dim), nn.LayerNorm(2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        return self.net(x)


@problem(rows, [WIDTH], batch=(0,), layer_norm=1, add_layer_norm=2)
class PreNormStack(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(3))
        self.linears = nn.ModuleList(nn.Linear(dim, dim) for _ in range(2))

    def forward(self, x):
        for norm, linear in zip(self.norms, self.linears, strict=False):
            x = x + torch.relu(linear(norm(x)))
        return self.norms[-1](x)


@problem(rows, [WIDTH], add_layer_norm=2)
class PostNormStack(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.ff = nn.ModuleList(nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim)) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(dim, eps=1e-12) for _ in range(2))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        for ff, norm in zip(self.ff, self.norms, strict=True):
            x = norm(self.dropout(ff(x)) + x)
        return x


@problem(lambda: [torch.randint(0, 9, (2, 5)), torch.randint(0, 2, (2, 5))], [9, WIDTH], add_layer_norm=1)
class ThreeEmbeddingsSummed(nn.Module):
    def __init__(self, vocabulary, dim):
        super().__init__()
        self.token, self.segment = nn.Embedding(vocabulary, dim), nn.Embedding(2, dim)
        self.position = nn.Embedding(8, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, tokens, segments):
        positions = torch.arange(tokens.size(1)).expand_as(tokens)
        return self.norm(self.token(tokens) + self.position(positions) + self.segment(segments))


@problem(lambda: [torch.randn(2, 6, 4, 4)], [6], layer_norm=1)
class ChannelsLastLayerNorm(nn.Module):
    """A norm over channels of an image that is permuted there and back."""

    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.linear = nn.Linear(channels, 2 * channels)

    def forward(self, x):
        x = self.conv(x).permute(0, 2, 3, 1)
        return self.linear(self.norm(x)).permute(0, 3, 1, 2)


@problem(lambda: [torch.randn(4, WIDTH), torch.randn(4, WIDTH)], [WIDTH], batch=(0, 1), add_layer_norm=1)
class SumHandedBackToo(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim, bias=False)

    def forward(self, hidden, residual):
        residual = residual + hidden
        return self.norm(residual), residual


# ---- what only looks like them ---------------------------------------------------------------------------------------


@false_friend("rms_norm", rows, [WIDTH])
class EpsilonOutsideTheRoot(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x / (x.pow(2).mean(-1, keepdim=True).sqrt() + 0.3) * self.weight


@false_friend("rms_norm", rows, [WIDTH])
class SumOfSquares(nn.Module):
    """The length of the row, not the root of its mean square."""

    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6) * self.weight


@false_friend("rms_norm", rows)
class UnitLength(nn.Module):
    def forward(self, x):
        return nn.functional.normalize(x, dim=-1) * x.shape[-1] ** 0.5


@false_friend("rms_norm", rows)
class MeanOverAnotherAxis(nn.Module):
    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-6)


@false_friend("rms_norm", lambda: [torch.randn(2, 3, 8) for _ in range(2)])
class ScaledBySomethingElsesNorm(nn.Module):
    def forward(self, x, y):
        return y * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


@false_friend("rms_norm", rows)
class SumOverAnotherWidth(nn.Module):
    """Divided by one less than the width."""

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) / (x.shape[-1] - 1) + 1e-6)


@false_friend("layer_norm", rows, [WIDTH])
class StandardDeviation(nn.Module):
    """An annotated transformer's norm: unbiased, and the epsilon outside."""

    def __init__(self, dim):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return self.a * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) + self.b


@false_friend("layer_norm", rows)
class UnbiasedVarMean(nn.Module):
    def forward(self, x):
        var, mean = torch.var_mean(x, dim=-1, keepdim=True)
        return (x - mean) * torch.rsqrt(var + 1e-5)


@false_friend("layer_norm", lambda: [torch.randn(2, 6, 4, 4)], [6])
class ChannelsFirstLayerNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))

    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        var = (x - mean).pow(2).mean(1, keepdim=True)
        return (x - mean) / torch.sqrt(var + 1e-6) * self.weight[:, None, None]


@false_friend("add_layer_norm", lambda: [torch.randn(2, 3, WIDTH), torch.randn(3, WIDTH)], [WIDTH], layer_norm=1)
class BroadcastPosition(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, position):
        return self.norm(x + position)


@false_friend("add_rms_norm", lambda: [torch.randn(2, 3, WIDTH) for _ in range(2)], rms_norm=1)
class NormBeforeTheAdd(nn.Module):
    def forward(self, x, residual):
        return nn.functional.rms_norm(x, (x.shape[-1],), eps=1e-5) + residual
