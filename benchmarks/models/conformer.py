"""A Conformer speech encoder with a CTC head: half-step FFNs around attention with relative positions and convolution.

Gulati et al., "Conformer: Convolution-augmented Transformer for Speech Recognition", Interspeech 2020
(arXiv:2005.08100); relative positions after Dai et al., "Transformer-XL", ACL 2019 (arXiv:1901.02860), shifted by
padding and reshaping. Convolutions subsample time by 4; padded frames are masked in attention and convolution. Width
144, 4 heads, 80 mel bands and FFNs of four times the width are the paper's small model; a kernel of 31 (odd, so that it
is centred), 3 layers in place of 16, 4 utterances of up to 4 s (400 frames) a call and 500 word pieces are ours.
"""

import math

import torch
import torch.nn as nn

SEED = 18
BATCH = 4
FRAMES = 400
BANDS = 80
PIECES = 500


class Subsampling(nn.Module):
    def __init__(self, bands, dim):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, dim, 3, stride=2), nn.ReLU(), nn.Conv2d(dim, dim, 3, stride=2), nn.ReLU()
        )
        self.out = nn.Linear(dim * (((bands - 1) // 2 - 1) // 2), dim)

    def forward(self, x):
        x = self.conv(x.unsqueeze(1))
        batch, channels, time, bands = x.size()
        return self.out(x.transpose(1, 2).contiguous().view(batch, time, channels * bands))


class FeedForward(nn.Module):
    def __init__(self, dim, ratio, dropout):
        super().__init__()
        self.net = nn.Sequential(
            nn.LayerNorm(dim),
            nn.Linear(dim, dim * ratio),
            nn.SiLU(),
            nn.Dropout(dropout),
            nn.Linear(dim * ratio, dim),
            nn.Dropout(dropout),
        )

    def forward(self, x):
        return self.net(x)


class RelativeAttention(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.norm = nn.LayerNorm(dim)
        self.linear_q = nn.Linear(dim, dim)
        self.linear_k = nn.Linear(dim, dim)
        self.linear_v = nn.Linear(dim, dim)
        self.linear_pos = nn.Linear(dim, dim, bias=False)
        self.linear_out = nn.Linear(dim, dim)
        self.pos_bias_u = nn.Parameter(nn.init.xavier_uniform_(torch.empty(heads, self.head_dim)))
        self.pos_bias_v = nn.Parameter(nn.init.xavier_uniform_(torch.empty(heads, self.head_dim)))
        self.dropout = nn.Dropout(dropout)

    def rel_shift(self, x):
        """[batch, heads, n, 2n - 1] by distance becomes [batch, heads, n, n] by key."""
        batch, heads, n, distances = x.size()
        zeros = torch.zeros((batch, heads, n, 1), device=x.device, dtype=x.dtype)
        padded = torch.cat([zeros, x], dim=-1).view(batch, heads, distances + 1, n)
        return padded[:, :, 1:].view(batch, heads, n, distances)[:, :, :, :n]

    def forward(self, x, positions, hidden):
        x = self.norm(x)
        batch, n, _ = x.size()
        q = self.linear_q(x).view(batch, n, self.heads, self.head_dim)
        k = self.linear_k(x).view(batch, n, self.heads, self.head_dim).transpose(1, 2)
        v = self.linear_v(x).view(batch, n, self.heads, self.head_dim).transpose(1, 2)
        p = self.linear_pos(positions).view(1, -1, self.heads, self.head_dim).transpose(1, 2)
        q_with_bias_u = (q + self.pos_bias_u).transpose(1, 2)
        q_with_bias_v = (q + self.pos_bias_v).transpose(1, 2)
        by_content = torch.matmul(q_with_bias_u, k.transpose(-2, -1))
        by_position = self.rel_shift(torch.matmul(q_with_bias_v, p.transpose(-2, -1)))
        scores = (by_content + by_position) / math.sqrt(self.head_dim)
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1).masked_fill(hidden, 0.0)
        out = torch.matmul(self.dropout(weights), v)
        return self.linear_out(out.transpose(1, 2).contiguous().view(batch, n, -1))


class ConvolutionModule(nn.Module):
    def __init__(self, dim, kernel, dropout):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.pointwise_conv1 = nn.Conv1d(dim, 2 * dim, 1)
        self.depthwise_conv = nn.Conv1d(dim, dim, kernel, padding=(kernel - 1) // 2, groups=dim)
        self.batch_norm = nn.BatchNorm1d(dim)
        self.activation = nn.SiLU()
        self.pointwise_conv2 = nn.Conv1d(dim, dim, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, padding):
        x = self.norm(x).transpose(1, 2)
        x = x.masked_fill(padding, 0.0)
        x = nn.functional.glu(self.pointwise_conv1(x), dim=1)
        x = self.activation(self.batch_norm(self.depthwise_conv(x)))
        x = self.pointwise_conv2(x)
        x = x.masked_fill(padding, 0.0)
        return self.dropout(x.transpose(1, 2))


class ConformerBlock(nn.Module):
    def __init__(self, dim, heads, ratio, kernel, dropout):
        super().__init__()
        self.ffn1 = FeedForward(dim, ratio, dropout)
        self.attention = RelativeAttention(dim, heads, dropout)
        self.convolution = ConvolutionModule(dim, kernel, dropout)
        self.ffn2 = FeedForward(dim, ratio, dropout)
        self.norm = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, positions, padding):
        x = x + 0.5 * self.ffn1(x)
        x = x + self.dropout(self.attention(x, positions, padding.unsqueeze(1)))
        x = x + self.convolution(x, padding)
        x = x + 0.5 * self.ffn2(x)
        return self.norm(x)


class Model(nn.Module):
    def __init__(self, bands=BANDS, pieces=PIECES, dim=144, layers=3, heads=4, ratio=4, kernel=31, dropout=0.1):
        super().__init__()
        torch.manual_seed(SEED)
        self.dim = dim
        self.subsampling = Subsampling(bands, dim)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(ConformerBlock(dim, heads, ratio, kernel, dropout) for _ in range(layers))
        self.ctc = nn.Linear(dim, pieces)
        for block in self.blocks:
            norm = block.convolution.batch_norm
            nn.init.normal_(norm.running_mean, std=0.1)
            nn.init.uniform_(norm.running_var, 0.05, 0.3)

    def positions(self, n, device):
        """Sinusoids of the distances n - 1, ..., -(n - 1): [1, 2n - 1, dim]."""
        distance = torch.arange(n - 1, -n, -1, dtype=torch.float32, device=device).unsqueeze(1)
        steps = torch.arange(0, self.dim, 2, dtype=torch.float32, device=device)
        angles = distance * torch.exp(steps * -(math.log(10000.0) / self.dim))
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).unsqueeze(0)

    def forward(self, features, lengths):
        x = self.subsampling(features)
        n = x.size(1)
        lengths = ((lengths - 1) // 2 - 1) // 2
        padding = (torch.arange(n, device=x.device).unsqueeze(0) >= lengths.unsqueeze(1)).unsqueeze(1)
        positions = self.dropout(self.positions(n, x.device))
        x = self.dropout(x * math.sqrt(self.dim))
        for block in self.blocks:
            x = block(x, positions, padding)
        return torch.log_softmax(self.ctc(x), dim=-1)


def get_init_inputs():
    return []


def get_inputs():
    return [torch.randn(BATCH, FRAMES, BANDS), torch.randint(FRAMES // 4, FRAMES + 1, (BATCH,))]


def get_workloads():
    bands = {"normal": [0.0, 1.0]}
    lengths = {"from": FRAMES // 4, "below": FRAMES + 1}
    return {
        "name": "recognition",
        "inputs": [
            {"name": "features", "dtype": "float32", "shape": ["batch", FRAMES, BANDS], "values": bands},
            {"name": "lengths", "dtype": "int64", "shape": ["batch"], "values": lengths},
        ],
        "dims": {"batch": {"serve": [BATCH], "min": 1, "max": 16}},
    }
