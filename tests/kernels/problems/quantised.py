"""Weights of int8, and activations that are quantised behind a norm."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.kernels.problems import false_friend, problem

DIM, OUT = 8, 6


def rows():
    return [torch.randn(3, DIM)]


class Int8(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randint(-127, 128, (OUT, DIM), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(OUT) / 100 + 0.01)
        self.bias = nn.Parameter(torch.zeros(OUT))


@problem(rows, batch=(0,), int8_linear=1)
class DequantisedFirst(Int8):
    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype) * self.scale.unsqueeze(1), self.bias)


@problem(rows, int8_linear=1)
class ScaledBehind(Int8):
    def forward(self, x):
        return F.linear(x, self.weight.to(dtype=x.dtype)) * self.scale


@problem(rows, int8_linear=1)
class ScaledBehindWithBias(Int8):
    def forward(self, x):
        return torch.matmul(x, self.weight.float().t()) * self.scale + self.bias


@problem(rows, dtype=torch.bfloat16, tolerance=6e-2, int8_linear=1)
class InBfloat16(Int8):
    def forward(self, x):
        return F.linear(x, self.scale[:, None] * self.weight.type_as(x), self.bias)


@problem(rows, rms_norm_int8=1)
class NormThenQuantise(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(DIM, eps=1e-6)

    def forward(self, x):
        x = self.norm(x)
        scale = (x.abs().amax(dim=-1, keepdim=True) / 127).clamp(min=1e-8)
        return torch.clamp(torch.round(x / scale), -128, 127).to(torch.int8), scale


@problem(rows, rms_norm_int8=1)
class NormByHandThenQuantise(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(DIM))

    def forward(self, x):
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-5) / 127.0
        return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


# ---- what only looks like them ---------------------------------------------------------------------------------------


@false_friend("int8_linear", rows)
class WithAZeroPoint(Int8):
    def forward(self, x):
        return F.linear(x, (self.weight.to(x.dtype) - 3) * self.scale[:, None])


@false_friend("int8_linear", rows)
class OneScaleForAll(Int8):
    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype) * 0.02)


@false_friend("int8_linear", lambda: [torch.randn(3, OUT)])
class AScaleForEachInput(nn.Module):
    """Of a square weight, so that only its place tells."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randint(-127, 128, (OUT, OUT), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(OUT) / 100 + 0.01)

    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype) * self.scale)


@false_friend("int8_linear", lambda: [torch.randn(OUT, DIM)])
class AScaleForEachRowOfTheInput(Int8):
    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype)) * self.scale[:, None]


@false_friend("int8_linear", rows)
class BiasIsScaledToo(Int8):
    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype), self.bias + 1) * self.scale


@false_friend("rms_norm_int8", rows, rms_norm=1)
class OneScaleForTheWholeTensor(nn.Module):
    def forward(self, x):
        x = F.rms_norm(x, (DIM,), eps=1e-6)
        scale = (x.abs().amax() / 127).clamp(min=1e-8)
        return torch.round(x / scale).clamp(-127, 127).to(torch.int8), scale


@false_friend("rms_norm_int8", rows, rms_norm=1)
class Truncated(nn.Module):
    def forward(self, x):
        x = F.rms_norm(x, (DIM,), eps=1e-6)
        scale = (x.abs().amax(-1, keepdim=True) / 127).clamp(min=1e-8)
        return torch.trunc(x / scale).clamp(-127, 127).to(torch.int8), scale


@false_friend("rms_norm_int8", rows, layer_norm=1)
class LayerNormThenQuantise(nn.Module):
    def forward(self, x):
        x = F.layer_norm(x, (DIM,))
        scale = (x.abs().amax(-1, keepdim=True) / 127).clamp(min=1e-8)
        return torch.round(x / scale).clamp(-127, 127).to(torch.int8), scale
