"""Rotary position embeddings."""

import torch
from torch import nn

from tests.kernels.problems import false_friend, problem

STEPS, WIDTH = 5, 8


def heads():
    return [torch.randn(2, 3, STEPS, WIDTH) for _ in range(2)]


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


class Rotary(nn.Module):
    def __init__(self, width=WIDTH, base=10_000):
        super().__init__()
        inverse = 1.0 / (base ** (torch.arange(0, width, 2).float() / width))
        self.register_buffer("inv_freq", inverse, persistent=False)

    def angles(self, q):
        freqs = torch.outer(torch.arange(q.shape[-2]).float(), self.inv_freq)
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos(), emb.sin()

    def forward(self, q, k):
        cos, sin = self.angles(q)
        return self.rotated(q, cos, sin), self.rotated(k, cos, sin)


@problem(heads, batch=(0, 1), rope=2)
class QueriesAndKeys(Rotary):
    def rotated(self, x, cos, sin):
        return (x * cos) + (rotate_half(x) * sin)


@problem(heads, rope=2)
class AnglesWithLeadingOnes(Rotary):
    def rotated(self, x, cos, sin):
        return x * cos[None, None, :, :] + rotate_half(x) * sin[None, None, :, :]


@problem(heads, rope=2)
class ChunksSwapped(Rotary):
    def rotated(self, x, cos, sin):
        x1, x2 = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-x2, x1), dim=-1) * sin


@problem(heads, rope=2)
class AnglesOfHalfAHead(Rotary):
    """The angles are kept once; each half is turned by itself."""

    def angles(self, q):
        freqs = torch.outer(torch.arange(q.shape[-2]).float(), self.inv_freq)
        return freqs.cos(), freqs.sin()

    def rotated(self, x, cos, sin):
        x1, x2 = torch.chunk(x, 2, dim=-1)
        return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1)


@problem(heads, rope=2)
class HalfOfTheHeadTurns(Rotary):
    def __init__(self):
        super().__init__(width=WIDTH // 2)

    def rotated(self, x, cos, sin):
        turned, kept = x[..., : WIDTH // 2], x[..., WIDTH // 2 :]
        return torch.cat((turned * cos + rotate_half(turned) * sin, kept), dim=-1)


@problem(lambda: [torch.randn(2, STEPS, 3, WIDTH)], rope=1)
class StepsBeforeHeads(Rotary):
    """The angles of a table, taken by position, broadcast over heads."""

    def __init__(self):
        super().__init__()
        freqs = torch.outer(torch.arange(16).float(), self.inv_freq)
        emb = torch.cat((freqs, freqs), dim=-1)
        self.register_buffer("cos", emb.cos())
        self.register_buffer("sin", emb.sin())

    def forward(self, x):
        cos, sin = (t[: x.shape[1]].unsqueeze(1) for t in (self.cos, self.sin))
        return (x * cos) + (rotate_half(x) * sin)


# ---- what only looks like it -----------------------------------------------------------------------------------------


@false_friend("rope", heads)
class NeighboursTurn(Rotary):
    def rotated(self, x, cos, sin):
        return x * cos + torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2) * sin


@false_friend("rope", heads)
class TurnedBack(Rotary):
    def rotated(self, x, cos, sin):
        return x * cos - rotate_half(x) * sin


@false_friend("rope", heads)
class TheOtherHalfNegated(Rotary):
    def rotated(self, x, cos, sin):
        x1, x2 = x.chunk(2, dim=-1)
        return x * cos + torch.cat((x2, -x1), dim=-1) * sin


@false_friend("rope", heads)
class HalvesTurnedApart(Rotary):
    """A sign of the second half is wrong."""

    def rotated(self, x, cos, sin):
        x1, x2 = x.chunk(2, dim=-1)
        cos, sin = cos[..., : WIDTH // 2], sin[..., : WIDTH // 2]
        return torch.cat((x1 * cos - x2 * sin, x2 * cos - x1 * sin), dim=-1)


@false_friend("rope", heads)
class ThreeParts(Rotary):
    def rotated(self, x, cos, sin):
        return x * cos + torch.cat((-x[..., 4:], x[..., :3], x[..., :1]), dim=-1) * sin
