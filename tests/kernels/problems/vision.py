"""Group norms with SiLU, and layer norms that a condition scales and shifts."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.kernels.problems import false_friend, problem

CHANNELS, DIM = 8, 12


def images():
    return [torch.randn(2, CHANNELS, 4, 4)]


def conditioned():
    return [torch.randn(2, 5, DIM), torch.randn(2, DIM)]


@problem(images, batch=(0,), group_norm_silu=2)
class ResidualBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, CHANNELS), nn.GroupNorm(2, CHANNELS, eps=1e-6)
        self.conv1, self.conv2 = (nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1) for _ in range(2))
        self.act = nn.SiLU()

    def forward(self, x):
        h = self.conv1(self.act(self.norm1(x)))
        return x + self.conv2(self.act(self.norm2(h)))


@problem(images, group_norm_silu=1)
class SiluInPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.GroupNorm(4, CHANNELS), nn.SiLU(inplace=True), nn.Conv2d(CHANNELS, 3, 1))

    def forward(self, x):
        return self.net(x)


@problem(images, group_norm_silu=1)
class NonlinearityByHand(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(num_groups=2, num_channels=CHANNELS, affine=False)

    def forward(self, x):
        x = self.norm(x)
        return x * torch.sigmoid(x)


@problem(lambda: [torch.randn(2, CHANNELS, 4, 4), torch.randn(2, DIM)], group_norm_silu=2)
class BlockWithATimeEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.block1 = nn.Sequential(nn.GroupNorm(4, CHANNELS), nn.SiLU(), nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1))
        self.block2 = nn.Sequential(nn.GroupNorm(4, CHANNELS), nn.SiLU(), nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1))
        self.time = nn.Linear(DIM, CHANNELS)

    def forward(self, x, emb):
        h = self.block1(x) + self.time(F.silu(emb))[:, :, None, None]
        return self.block2(h) + x


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


@problem(conditioned, batch=(0, 1), modulate=2)
class DiffusionTransformerBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(DIM, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.mix, self.mlp = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM)
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(DIM, 6 * DIM))

    def forward(self, x, c):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.ada(c).chunk(6, dim=1)
        x = x + gate1.unsqueeze(1) * self.mix(modulate(self.norm1(x), shift1, scale1))
        return x + gate2.unsqueeze(1) * self.mlp(modulate(self.norm2(x), shift2, scale2))


@problem(conditioned, modulate=1)
class FinalLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.ada, self.linear = nn.LayerNorm(DIM), nn.Linear(DIM, 2 * DIM), nn.Linear(DIM, 3)

    def forward(self, x, c):
        scale, shift = self.ada(F.silu(c))[:, None].chunk(2, dim=-1)
        return self.linear(self.norm(x) * (scale + 1.0) + shift)


@problem(conditioned, modulate=1)
class ModulatedByAddcmul(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.ada = nn.LayerNorm(DIM, elementwise_affine=False), nn.Linear(DIM, 2 * DIM)

    def forward(self, x, c):
        shift, scale = self.ada(c).unsqueeze(1).chunk(2, dim=-1)
        return torch.addcmul(shift, self.norm(x), 1 + scale)


# ---- what only looks like them ---------------------------------------------------------------------------------------


@false_friend("group_norm_silu", images)
class GroupNormRelu(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(4, CHANNELS)

    def forward(self, x):
        return F.relu(self.norm(x))


@false_friend("group_norm_silu", images)
class BatchNormSilu(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(CHANNELS)

    def forward(self, x):
        return F.silu(self.norm(x))


@false_friend("group_norm_silu", images)
class ModulatedBetween(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.scale = nn.GroupNorm(4, CHANNELS), nn.Parameter(torch.randn(CHANNELS, 1, 1))

    def forward(self, x):
        return F.silu(self.norm(x) * (1 + self.scale))


@false_friend("group_norm_silu", images)
class GateOfTheInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(4, CHANNELS)

    def forward(self, x):
        return self.norm(x) * torch.sigmoid(x)


@false_friend("modulate", lambda: [torch.randn(2, 5, DIM) for _ in range(3)], layer_norm=1)
class AScaleForEachPosition(nn.Module):
    def forward(self, x, scale, shift):
        return F.layer_norm(x, (DIM,)) * (1 + scale) + shift


@false_friend("modulate", conditioned, layer_norm=1)
class ScaleAlone(nn.Module):
    def forward(self, x, c):
        return F.layer_norm(x, (DIM,)) * c.unsqueeze(1) + c.unsqueeze(1)


@false_friend("modulate", conditioned, rms_norm=1)
class ModulatedRmsNorm(nn.Module):
    def forward(self, x, c):
        return modulate(F.rms_norm(x, (DIM,), eps=1e-6), c, c)
