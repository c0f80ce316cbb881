"""Gated feed-forward layers."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.kernels.problems import false_friend, problem

DIM, HIDDEN = 8, 12


def rows():
    return [torch.randn(3, 4, DIM)]


class Gated(nn.Module):
    """Two projections, something with both, and the way back."""

    def __init__(self, dim=DIM, hidden=HIDDEN):
        super().__init__()
        self.w1, self.w3 = nn.Linear(dim, hidden, bias=False), nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.w2(self.combine(self.w1(x), self.w3(x)))


@problem(rows, batch=(0,), gated_activation=1)
class SwiGlu(Gated):
    def combine(self, gate, up):
        return F.silu(gate) * up


@problem(rows, dtype=torch.bfloat16, tolerance=6e-2, gated_activation=1)
class SwiGluInBfloat16(Gated):
    def combine(self, gate, up):
        return up * F.silu(gate)


@problem(rows, gated_activation=1)
class SwishByHand(Gated):
    def combine(self, gate, up):
        return gate * torch.sigmoid(gate) * up


@problem(rows, gated_activation=1)
class SigmoidFirst(Gated):
    def combine(self, gate, up):
        return up * (torch.sigmoid(gate) * gate)


@problem(rows, gated_activation=1)
class SiluInPlace(Gated):
    def combine(self, gate, up):
        return F.silu(gate, inplace=True) * up


@problem(rows, gated_activation=1)
class GateAndUpInOneProjection(nn.Module):
    def __init__(self, dim=DIM, hidden=HIDDEN):
        super().__init__()
        self.gate_up, self.down = nn.Linear(dim, 2 * hidden), nn.Linear(hidden, dim)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(up * F.silu(gate))


@problem(rows, gated_activation=1)
class GegluOfADiffusionModel(nn.Module):
    def __init__(self, dim=DIM, hidden=HIDDEN):
        super().__init__()
        self.proj = nn.Linear(dim, hidden * 2)

    def forward(self, x):
        hidden, gate = self.proj(x).chunk(2, dim=-1)
        return hidden * F.gelu(gate)


@problem(rows, gated_activation=1)
class GegluTanh(Gated):
    def combine(self, gate, up):
        return F.gelu(gate, approximate="tanh") * up


@problem(rows, gated_activation=1)
class GegluTanhByHand(Gated):
    def combine(self, gate, up):
        inner = math.sqrt(2.0 / math.pi) * (gate + 0.044715 * torch.pow(gate, 3.0))
        return 0.5 * gate * (1.0 + torch.tanh(inner)) * up


@problem(rows, gated_activation=1)
class GegluTanhFactored(Gated):
    def combine(self, gate, up):
        opened = 0.5 * gate * (1 + torch.tanh(0.7978845608 * gate * (1 + 0.044715 * gate * gate)))
        return opened * up


@problem(rows, gated_activation=1)
class GegluErfByHand(Gated):
    def combine(self, gate, up):
        return gate * 0.5 * (1.0 + torch.erf(gate / math.sqrt(2.0))) * up


@problem(rows, gated_activation=2)
class TwoExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = SwiGlu(), SwiGlu()

    def forward(self, x):
        return self.first(x) + self.second(x)


# ---- what only looks like them ---------------------------------------------------------------------------------------


@false_friend("gated_activation", rows)
class PlainGlu(Gated):
    def combine(self, gate, up):
        return torch.sigmoid(gate) * up


@false_friend("gated_activation", rows)
class ReGlu(Gated):
    def combine(self, gate, up):
        return F.relu(gate) * up


@false_friend("gated_activation", rows)
class QuickGelu(Gated):
    def combine(self, gate, up):
        return gate * torch.sigmoid(1.702 * gate) * up


@false_friend("gated_activation", rows)
class AnotherCubicCoefficient(Gated):
    def combine(self, gate, up):
        inner = math.sqrt(2.0 / math.pi) * (gate + 0.0447 * torch.pow(gate, 3))
        return 0.5 * gate * (1.0 + torch.tanh(inner)) * up


@false_friend("gated_activation", rows)
class ErfWithoutTheRoot(Gated):
    def combine(self, gate, up):
        return 0.5 * gate * (1.0 + torch.erf(gate / 2.0)) * up


@false_friend("gated_activation", rows)
class OneGateForAll(nn.Module):
    """The gate is a single number for each row."""

    def __init__(self):
        super().__init__()
        self.gate, self.up = nn.Linear(DIM, 1), nn.Linear(DIM, HIDDEN)

    def forward(self, x):
        return F.silu(self.gate(x)) * self.up(x)


@false_friend("gated_activation", rows)
class TheOpenedGateIsShown(Gated):
    def forward(self, x):
        opened = F.silu(self.w1(x))
        return self.w2(opened * self.w3(x)), opened
