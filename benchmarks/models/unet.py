"""A diffusion U-Net: residual blocks of GroupNorm, SiLU and convolution, told the time step, with skips and attention.

Ronneberger et al., "U-Net: Convolutional Networks for Biomedical Image Segmentation", MICCAI 2015 (arXiv:1505.04597),
in the form of Ho et al., "Denoising Diffusion Probabilistic Models", NeurIPS 2020 (arXiv:2006.11239). Two residual
blocks a resolution (and one more on the way up), 32 groups, sinusoidal time steps and attention at 16 x 16 are theirs;
32 channels in place of 128, multiples (1, 2, 4), images of 64 x 64 and 2 images a call are ours.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 17
BATCH = 2
IMAGE = 64
STEPS = 1000


def timestep_embedding(steps, dim):
    half = dim // 2
    frequencies = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32, device=steps.device) / half)
    angles = steps[:, None].float() * frequencies[None]
    return torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, channels, out, time_dim, dropout, groups=32):
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, channels)
        self.conv1 = nn.Conv2d(channels, out, 3, padding=1)
        self.time = nn.Linear(time_dim, out)
        self.norm2 = nn.GroupNorm(groups, out)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1)
        self.skip = nn.Conv2d(channels, out, 1) if channels != out else nn.Identity()

    def forward(self, x, time):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.time(F.silu(time))[:, :, None, None]
        h = self.conv2(self.dropout(F.silu(self.norm2(h))))
        return self.skip(x) + h


class AttentionBlock(nn.Module):
    def __init__(self, channels, groups=32):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
        self.qkv = nn.Conv2d(channels, channels * 3, 1)
        self.proj = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        batch, channels, height, width = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(batch, 3 * channels, height * width).chunk(3, dim=1)
        weights = torch.einsum("bct,bcs->bts", q * channels**-0.5, k)
        weights = torch.softmax(weights, dim=-1)
        h = torch.einsum("bts,bcs->bct", weights, v).reshape(batch, channels, height, width)
        return x + self.proj(h)


class Downsample(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, stride=2, padding=1)

    def forward(self, x):
        return self.conv(x)


class Upsample(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return self.conv(F.interpolate(x, scale_factor=2, mode="nearest"))


class Model(nn.Module):
    def __init__(self, channels=32, multiples=(1, 2, 4), blocks=2, attention=(2,), dropout=0.1):
        super().__init__()
        torch.manual_seed(SEED)
        self.channels = channels
        time_dim = 4 * channels
        self.time_mlp = nn.Sequential(nn.Linear(channels, time_dim), nn.SiLU(), nn.Linear(time_dim, time_dim))
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.down, skips, width = nn.ModuleList(), [channels], channels
        for level, multiple in enumerate(multiples):
            for _ in range(blocks):
                layers = [ResBlock(width, channels * multiple, time_dim, dropout)]
                width = channels * multiple
                if level in attention:
                    layers.append(AttentionBlock(width))
                self.down.append(nn.ModuleList(layers))
                skips.append(width)
            if level != len(multiples) - 1:
                self.down.append(nn.ModuleList([Downsample(width)]))
                skips.append(width)
        self.middle = nn.ModuleList(
            [
                ResBlock(width, width, time_dim, dropout),
                AttentionBlock(width),
                ResBlock(width, width, time_dim, dropout),
            ]
        )
        self.up = nn.ModuleList()
        for level, multiple in reversed(list(enumerate(multiples))):
            for block in range(blocks + 1):
                layers = [ResBlock(width + skips.pop(), channels * multiple, time_dim, dropout)]
                width = channels * multiple
                if level in attention:
                    layers.append(AttentionBlock(width))
                if level and block == blocks:
                    layers.append(Upsample(width))
                self.up.append(nn.ModuleList(layers))
        self.norm = nn.GroupNorm(32, width)
        self.out = nn.Conv2d(width, 3, 3, padding=1)

    @staticmethod
    def run(layers, x, time):
        for layer in layers:
            x = layer(x, time) if isinstance(layer, ResBlock) else layer(x)
        return x

    def forward(self, images, steps):
        time = self.time_mlp(timestep_embedding(steps, self.channels))
        x = self.stem(images)
        skips = [x]
        for layers in self.down:
            x = self.run(layers, x, time)
            skips.append(x)
        x = self.run(self.middle, x, time)
        for layers in self.up:
            x = self.run(layers, torch.cat([x, skips.pop()], dim=1), time)
        return self.out(F.silu(self.norm(x)))


def get_init_inputs():
    return []


def get_inputs():
    return [torch.randn(BATCH, 3, IMAGE, IMAGE), torch.randint(0, STEPS, (BATCH,))]


def get_workloads():
    pixels = {"normal": [0.0, 1.0]}
    return {
        "name": "denoising",
        "inputs": [
            {"name": "images", "dtype": "float32", "shape": ["batch", 3, IMAGE, IMAGE], "values": pixels},
            {"name": "steps", "dtype": "int64", "shape": ["batch"], "values": {"below": STEPS}},
        ],
        "dims": {"batch": {"serve": [BATCH], "min": 1, "max": 8}},
    }
