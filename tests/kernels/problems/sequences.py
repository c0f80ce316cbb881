"""Sequences laid end to end, and behaviour histories: conversions, softmax by segment, target attention, HSTU."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.kernels.problems import false_friend, problem

LONGEST, DIM = 4, 6


def ragged():
    return [torch.randn(7, DIM), torch.tensor([0, 2, 2, 6, 7])]


def padded():
    return [torch.randn(4, LONGEST, DIM), torch.tensor([0, 2, 2, 6, 7])]


# ---- conversions -----------------------------------------------------------------------------------------------------


@problem(ragged, jagged_to_padded=1)
class ToPadded(nn.Module):
    def forward(self, values, offsets):
        return torch.ops.aten._jagged_to_padded_dense_forward(values, [offsets], [LONGEST], -1.0)


@problem(padded, padded_to_jagged=1)
class ToJagged(nn.Module):
    def forward(self, padded, offsets):
        return torch.ops.aten._padded_dense_to_jagged_forward(torch.relu(padded), [offsets], 7)


@problem(ragged, jagged_to_padded=1)
class ToPaddedByPlaces(nn.Module):
    def forward(self, values, offsets):
        step = torch.arange(LONGEST)
        place = offsets[:-1, None] + step
        there = place < offsets[1:, None]
        found = values[place.clamp(max=values.shape[0] - 1)]
        return torch.where(there.unsqueeze(-1), found, 0.0)


@problem(lambda: [torch.randn(7, DIM), torch.tensor([2, 0, 4, 1])], jagged_to_padded=1)
class ToPaddedByAMask(nn.Module):
    def forward(self, values, lengths):
        mask = torch.arange(LONGEST)[None, :] < lengths[:, None]
        out = values.new_zeros(lengths.shape[0], LONGEST, DIM)
        out[mask] = values
        return out


@problem(ragged, jagged_to_padded=2, flash_attention=1, padded_to_jagged=1)
class AttentionOnThePadded(nn.Module):
    """There and back, with padded keys hidden."""

    def __init__(self):
        super().__init__()
        self.q, self.kv = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM)

    def forward(self, values, offsets):
        pad, back = torch.ops.aten._jagged_to_padded_dense_forward, torch.ops.aten._padded_dense_to_jagged_forward
        q = pad(self.q(values), [offsets], [LONGEST], 0.0).unsqueeze(1)
        kv = pad(self.kv(values), [offsets], [LONGEST], 0.0).unsqueeze(1)
        mask = torch.arange(LONGEST) < (offsets[1:] - offsets[:-1]).clamp(min=1).unsqueeze(1)
        out = F.scaled_dot_product_attention(q, kv, kv, attn_mask=mask[:, None, None, :])
        return back(out.squeeze(1), [offsets], 7)


# ---- softmax by segment ----------------------------------------------------------------------------------------------


@problem(ragged, jagged_softmax=1)
class SegmentSoftmaxByOffsets(nn.Module):
    def forward(self, scores, offsets):
        segment = torch.searchsorted(offsets, torch.arange(scores.shape[0]), right=True) - 1
        index = segment.unsqueeze(-1).expand_as(scores)
        top = torch.full((4, DIM), float("-inf")).scatter_reduce(0, index, scores, reduce="amax")
        raised = torch.exp(scores - top[segment])
        total = torch.zeros(4, DIM).index_add(0, segment, raised)
        return raised / total[segment]


@problem(ragged, jagged_softmax=1)
class SegmentSoftmaxByLengths(nn.Module):
    """As graph networks write it."""

    def forward(self, scores, offsets):
        segment = torch.repeat_interleave(offsets[1:] - offsets[:-1], output_size=7)
        index = segment[:, None].expand(-1, DIM)
        top = scores.new_full((4, DIM), float("-inf")).scatter_reduce(0, index, scores, "amax", include_self=False)
        raised = (scores - top.gather(0, index)).exp()
        total = scores.new_zeros(4, DIM).scatter_add(0, index, raised)
        return raised / total.gather(0, index)


# ---- target attention ------------------------------------------------------------------------------------------------


def history():
    mask = torch.arange(LONGEST)[None] < torch.tensor([[1], [4], [3]])
    return [torch.randn(3, DIM), torch.randn(3, LONGEST, DIM), mask]


class TargetAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.out = nn.Linear(4 * DIM, 8), nn.Linear(8, 5), nn.Linear(5, 1)

    def mlp(self, x):
        return self.out(torch.relu(self.fc2(torch.relu(self.fc1(x)))))

    def features(self, q, keys):
        return torch.cat([q, keys, q - keys, q * keys], dim=-1)


@problem(history, batch=(0, 1, 2), din_attention=1)
class AsItsAuthors(TargetAttention):
    def forward(self, query, keys, mask):
        q = query.unsqueeze(1).expand(-1, keys.size(1), -1)
        scores = self.mlp(self.features(q, keys)).squeeze(-1) / DIM**0.5
        weights = torch.softmax(scores.masked_fill(~mask, -1e9), dim=-1)
        return torch.matmul(weights.unsqueeze(1), keys).squeeze(1)


@problem(history, din_attention=1)
class QueryRepeated(TargetAttention):
    def forward(self, query, keys, mask):
        q = query.unsqueeze(1).repeat(1, keys.shape[1], 1)
        scores = self.mlp(self.features(q, keys)).squeeze(2)
        scores = torch.where(mask, scores, torch.full_like(scores, -(2.0**31)))
        return torch.sum(F.softmax(scores, dim=1).unsqueeze(2) * keys, dim=1)


@problem(lambda: [*history()[:2], torch.tensor([[1, 0, 0, 0], [1, 1, 1, 1], [1, 1, 1, 0]])], din_attention=1)
class MaskOfIntegers(TargetAttention):
    def forward(self, query, keys, mask):
        q = query.unsqueeze(1).expand_as(keys)
        scores = self.mlp(self.features(q, keys)).squeeze(-1).masked_fill(mask == 0, -1e9)
        return torch.einsum("bl,bld->bd", scores.softmax(-1), keys)


@false_friend("din_attention", history)
class NotNormalised(TargetAttention):
    def forward(self, query, keys, mask):
        q = query.unsqueeze(1).expand_as(keys)
        scores = self.mlp(self.features(q, keys)) * mask.unsqueeze(-1)
        return (scores * keys).sum(1)


@false_friend("din_attention", history, gated_sum=1)
class DifferenceTheOtherWayRound(TargetAttention):
    def features(self, q, keys):
        return torch.cat([q, keys, keys - q, q * keys], dim=-1)

    forward = AsItsAuthors.forward


@false_friend("din_attention", history, gated_sum=1)
class WithoutAMask(TargetAttention):
    def forward(self, query, keys, mask):
        q = query.unsqueeze(1).expand_as(keys)
        weights = torch.softmax(self.mlp(self.features(q, keys)).squeeze(-1), dim=-1)
        return torch.bmm(weights.unsqueeze(1), keys).squeeze(1) + mask.any()


@false_friend("din_attention", history, gated_sum=1)
class SigmoidUnits(TargetAttention):
    def mlp(self, x):
        return self.out(torch.sigmoid(self.fc2(torch.sigmoid(self.fc1(x)))))

    forward = AsItsAuthors.forward


# ---- HSTU ------------------------------------------------------------------------------------------------------------


class Transducer(nn.Module):
    def __init__(self, dim=8, heads=2):
        super().__init__()
        self.heads, self.width = heads, dim // heads
        self.uvqk = nn.Linear(dim, 3 * dim, bias=False)
        self.position = nn.Parameter(torch.randn(1, LONGEST, LONGEST))
        self.register_buffer("causal", torch.ones(LONGEST, LONGEST).tril())

    def split(self, x):
        return (t.view(*x.shape[:2], self.heads, self.width) for t in F.silu(self.uvqk(x)).chunk(3, dim=-1))

    def forward(self, x):
        q, k, v = self.split(x)
        return self.attend(q, k, v).reshape(x.shape)


def steps():
    return [torch.randn(2, LONGEST, 8)]


@problem(steps, batch=(0,), hstu_attention=1)
class PointwiseAttention(Transducer):
    def attend(self, q, k, v):
        scores = torch.einsum("bnhd,bmhd->bhnm", q, k) + self.position.unsqueeze(1)
        weights = F.silu(scores) / LONGEST * self.causal[None, None]
        return torch.einsum("bhnm,bmhd->bnhd", weights, v)


@problem(steps, hstu_attention=1)
class OtherLettersNoBias(Transducer):
    def attend(self, q, k, v):
        weights = F.silu(torch.einsum("bihd, bjhd -> bhij", q, k)) * self.causal / LONGEST
        return torch.einsum("bhij, bjhd -> bihd", weights, v)


@problem(steps, hstu_attention=1)
class HeadsInFront(Transducer):
    def attend(self, q, k, v):
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        scores = torch.matmul(q, k.transpose(-1, -2)) * 0.5
        weights = F.silu(scores).div(LONGEST) * self.causal
        return torch.matmul(weights, v).transpose(1, 2)


@false_friend("hstu_attention", steps)
class NeverDivided(Transducer):
    def attend(self, q, k, v):
        weights = torch.sigmoid(torch.einsum("bnhd,bmhd->bhnm", q, k)) / LONGEST * self.causal
        return torch.einsum("bhnm,bmhd->bnhd", weights, v)


@false_friend("hstu_attention", steps)
class KeysAndQueriesExchanged(Transducer):
    """The product with the values runs over the queries."""

    def attend(self, q, k, v):
        weights = F.silu(torch.einsum("bnhd,bmhd->bhnm", q, k)) / LONGEST * self.causal
        return torch.einsum("bhnm,bnhd->bmhd", weights, v)


# ---- what only looks like the jagged ones ----------------------------------------------------------------------------


@false_friend("jagged_softmax", ragged)
class LargestIsNotTakenOff(nn.Module):
    def forward(self, scores, offsets):
        segment = torch.searchsorted(offsets, torch.arange(scores.shape[0]), right=True) - 1
        raised = torch.exp(scores)
        return raised / torch.zeros(4, DIM).index_add(0, segment, raised)[segment]


@false_friend("jagged_softmax", ragged)
class TotalStartsAtOne(nn.Module):
    def forward(self, scores, offsets):
        segment = torch.searchsorted(offsets, torch.arange(scores.shape[0]), right=True) - 1
        index = segment.unsqueeze(-1).expand_as(scores)
        top = torch.full((4, DIM), float("-inf")).scatter_reduce(0, index, scores, reduce="amax")
        raised = torch.exp(scores - top[segment])
        return raised / torch.ones(4, DIM).index_add(0, segment, raised)[segment]


@false_friend("jagged_to_padded", ragged)
class FilledWithTheLast(nn.Module):
    """What is beyond a sequence is its neighbour's, not padding."""

    def forward(self, values, offsets):
        place = offsets[:-1, None] + torch.arange(LONGEST)
        return values[place.clamp(max=values.shape[0] - 1)]


@false_friend("jagged_to_padded", ragged)
class StartsOneLater(nn.Module):
    def forward(self, values, offsets):
        place = offsets[:-1, None] + torch.arange(1, LONGEST + 1)
        there = place < offsets[1:, None]
        return torch.where(there.unsqueeze(-1), values[place.clamp(max=values.shape[0] - 1)], 0.0)


@false_friend("jagged_to_padded", lambda: [torch.randn(6, LONGEST), torch.tensor([0, 2, 2, 5, 6])])
class HiddenAlongTheWidth(nn.Module):
    """As many sequences as steps and columns: where it is hidden, the sequence is taken for a step."""

    def forward(self, values, offsets):
        place = offsets[:-1, None] + torch.arange(LONGEST)
        there = (place < offsets[1:, None]).unsqueeze(0)
        return torch.where(there, values[place.clamp(max=values.shape[0] - 1)], 0.0)


@false_friend("jagged_to_padded", lambda: [torch.randn(1, DIM), torch.tensor([2, 0, 4, 1])])
class OneRowEverywhere(nn.Module):
    def forward(self, values, lengths):
        mask = torch.arange(LONGEST) < lengths[:, None]
        return torch.zeros(4, LONGEST, DIM).index_put((mask,), values)


@false_friend("padded_to_jagged", lambda: [torch.randn(4, LONGEST, DIM), torch.rand(4, LONGEST) < 0.6])
class ChosenByAMask(nn.Module):
    """What is kept need not come first in its row."""

    def forward(self, padded, mask):
        return padded[mask].cumsum(0).mean(0)
