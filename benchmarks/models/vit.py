"""A ViT-S-like image classifier, with attention as people write it by hand.

Dosovitskiy et al., "An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale", ICLR 2021
(arXiv:2010.11929); the small size after Touvron et al., 2021 (arXiv:2012.12877). Patches of 16 x 16 by a convolution, a
class token, learned positions, pre-norm blocks, one projection for query, key and value. Width 384, 6 heads and
1,000 classes are theirs; 8 layers in place of 12, images of 160 x 160 in place of 224 x 224 and 2 images a call are
ours.
"""

import torch
import torch.nn as nn

SEED = 15
BATCH = 2
IMAGE = 160
PATCH = 16
CLASSES = 1000


class Attention(nn.Module):
    def __init__(self, dim, heads, dropout=0.0):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.attn_drop = nn.Dropout(dropout)
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(dropout)

    def forward(self, x):
        batch, tokens, dim = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = (q @ k.transpose(-2, -1)) * self.scale
        attn = self.attn_drop(attn.softmax(dim=-1))
        x = (attn @ v).transpose(1, 2).reshape(batch, tokens, dim)
        return self.proj_drop(self.proj(x))


class Block(nn.Module):
    def __init__(self, dim, heads, ratio=4):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * ratio), nn.GELU(), nn.Linear(dim * ratio, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self, image=IMAGE, patch=PATCH, classes=CLASSES, dim=384, depth=8, heads=6):
        super().__init__()
        torch.manual_seed(SEED)
        self.patch_embed = nn.Conv2d(3, dim, kernel_size=patch, stride=patch)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.pos_embed = nn.Parameter(torch.randn(1, 1 + (image // patch) ** 2, dim) * 0.02)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.head = nn.Linear(dim, classes)

    def forward(self, images):
        x = self.patch_embed(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1) + self.pos_embed
        x = self.norm(self.blocks(x))
        return self.head(x[:, 0])


def get_init_inputs():
    return []


def get_inputs():
    return [torch.randn(BATCH, 3, IMAGE, IMAGE)]


def get_workloads():
    pixels = {"normal": [0.0, 1.0]}
    return {
        "name": "classification",
        "inputs": [
            {"name": "images", "dtype": "float32", "shape": ["batch", 3, IMAGE, IMAGE], "values": pixels},
        ],
        "dims": {"batch": {"serve": [BATCH], "min": 1, "max": 8}},
    }
