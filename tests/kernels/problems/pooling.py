"""Mean pooling over the valid steps of padded sequences."""

import torch
from torch import nn

from tests.kernels.problems import false_friend, problem

STEPS, DIM = 5, 6


def masked():
    return [torch.randn(3, STEPS, DIM), torch.arange(STEPS)[None] < torch.tensor([[2], [5], [1]])]


def tokens():
    return [torch.randn(3, STEPS, DIM), torch.tensor([[1, 1, 0, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0]])]


@problem(masked, batch=(0, 1), masked_pooling=1)
class ClampedCount(nn.Module):
    def forward(self, x, mask):
        weights = mask.unsqueeze(-1).float()
        return (x * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1.0)


@problem(tokens, masked_pooling=1)
class SentenceEmbedding(nn.Module):
    def forward(self, token_embeddings, attention_mask):
        expanded = attention_mask.unsqueeze(-1).expand(token_embeddings.size()).float()
        return torch.sum(token_embeddings * expanded, 1) / torch.clamp(expanded.sum(1), min=1e-9)


@problem(tokens, masked_pooling=1)
class CountOfTheFlatMask(nn.Module):
    def forward(self, x, mask):
        mask = mask.to(x.dtype)
        return (x * mask[:, :, None]).sum(1) / (mask.sum(1, keepdim=True) + 1e-8)


@problem(lambda: [torch.randint(0, 4, (3, STEPS))], [4], batch=(0,), masked_pooling=1)
class PaddingIsIdZero(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.table = nn.Embedding(rows, DIM, padding_idx=0)

    def forward(self, ids):
        mask = (ids != 0).unsqueeze(-1).float()
        return (self.table(ids) * mask).sum(1) / (mask.sum(1) + 1e-6)


@problem(lambda: [torch.randn(3, STEPS, DIM), torch.tensor([2, 5, 1])], masked_pooling=1)
class FromLengths(nn.Module):
    def forward(self, x, lengths):
        mask = torch.arange(x.size(1)).unsqueeze(0) < lengths.unsqueeze(1)
        mask = mask.to(x.dtype).unsqueeze(2)
        return torch.sum(mask * x, dim=1) / torch.clamp_min(mask.sum(dim=1), 1)


@problem(masked, masked_pooling=1)
class EinsumOfTheMask(nn.Module):
    def forward(self, x, mask):
        mask = mask.float()
        return torch.einsum("bl,bld->bd", mask, x) / mask.sum(1, keepdim=True).clamp(min=1)


@problem(masked, masked_pooling=1)
class BatchedProductOfTheMask(nn.Module):
    def forward(self, x, mask):
        mask = mask.to(x)
        total = torch.bmm(mask.unsqueeze(1), x).squeeze(1)
        return total / mask.sum(dim=1, keepdim=True).clamp(min=1e-6)


@problem(masked, dtype=torch.bfloat16, tolerance=6e-2, masked_pooling=1)
class InBfloat16(nn.Module):
    def forward(self, x, mask):
        mask = mask.unsqueeze(-1).to(x.dtype)
        return (x * mask).sum(1) / mask.sum(1).clamp(min=1)


# ---- what only looks like it -----------------------------------------------------------------------------------------


@false_friend("masked_pooling", masked)
class SumOfValid(nn.Module):
    def forward(self, x, mask):
        return (x * mask.unsqueeze(-1)).sum(1)


@false_friend("masked_pooling", masked)
class MeanOverThePaddingToo(nn.Module):
    def forward(self, x, mask):
        return (x * mask.unsqueeze(-1).float()).mean(1)


@false_friend("masked_pooling", masked)
class CountsTheHidden(nn.Module):
    def forward(self, x, mask):
        hidden = (~mask).unsqueeze(-1).float()
        return (x * mask.unsqueeze(-1).float()).sum(1) / hidden.sum(1).clamp(min=1)


@false_friend("masked_pooling", masked)
class SumsOverTheWidth(nn.Module):
    def forward(self, x, mask):
        weights = mask.unsqueeze(-1).float()
        return (x * weights).sum(2) / weights.sum(2).clamp(min=1)


@false_friend("masked_pooling", masked)
class RootOfTheCount(nn.Module):
    def forward(self, x, mask):
        weights = mask.unsqueeze(-1).float()
        return (x * weights).sum(1) / weights.sum(1).sqrt()


@false_friend("masked_pooling", masked)
class MaximumOfValid(nn.Module):
    def forward(self, x, mask):
        return x.masked_fill(~mask.unsqueeze(-1), float("-inf")).amax(1)


@false_friend("masked_pooling", lambda: [torch.randn(4, 4, 4), torch.rand(4, 4)])
class OneMaskForAllSamples(nn.Module):
    """Of equal sizes, so that the dimensions alone tell."""

    def forward(self, x, weights):
        return (x * weights).sum(1) / weights.sum(1)


@false_friend("masked_pooling", lambda: [torch.randn(3, STEPS, DIM), torch.rand(3, STEPS, DIM)])
class AWeightForEachElement(nn.Module):
    def forward(self, x, weights):
        return (x * weights).sum(1) / weights.sum(1).clamp(min=1e-6)
