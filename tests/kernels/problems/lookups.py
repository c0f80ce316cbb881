"""Embedding lookups and bags, and the ids before them."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.kernels.problems import false_friend, problem

ROWS = [5, 7, 4]
TOTAL, DIM, FEATURES = sum(ROWS), 6, len(ROWS)


def ids():
    return [torch.stack([torch.randint(0, rows, (4,)) for rows in ROWS], dim=1)]


def bags():
    return [torch.randint(0, TOTAL, (9,)), torch.tensor([0, 2, 2, 6])]


def starts():
    return torch.tensor([0, *torch.tensor(ROWS).cumsum(0)[:-1].tolist()])


class OneTable(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(TOTAL, DIM)
        self.register_buffer("starts", starts())


@problem(ids, batch=(0,), embedding_lookup=1)
class OneTableForAll(OneTable):
    def forward(self, x):
        return self.table(x + self.starts).flatten(1)


@problem(ids, embedding_lookup=1)
class StartsUnsqueezed(OneTable):
    def forward(self, x):
        x = x + x.new_tensor(self.starts).unsqueeze(0)
        return self.table(x)


@problem(ids, embedding_lookup=1)
class StartsInARow(OneTable):
    """The buffer has a leading one."""

    def __init__(self):
        super().__init__()
        self.starts = self.starts.view(1, -1)

    def forward(self, x):
        return F.embedding(self.starts + x, self.table.weight)


@problem(ids, embedding_lookup=2)
class LinearTermBeside(OneTable):
    def __init__(self):
        super().__init__()
        self.weights = nn.Embedding(TOTAL, 1)

    def forward(self, x):
        x = x + self.starts
        return self.weights(x).sum(1) + self.table(x).sum((1, 2)).unsqueeze(1)


@problem(lambda: [torch.randint(0, 4, (2, 5, FEATURES))], embedding_lookup=1)
class HistoryOfSeveralFeatures(OneTable):
    def forward(self, x):
        return self.table(x + self.starts).flatten(2).mean(1)


@problem(bags, embedding_bag=1)
class BagOfSums(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(TOTAL, DIM, mode="sum")

    def forward(self, x, offsets):
        return self.bag(x, offsets)


@problem(bags, embedding_bag=1)
class BagOfMeans(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(TOTAL, DIM))

    def forward(self, x, offsets):
        return F.embedding_bag(x, self.weight, offsets)


@problem(lambda: [torch.randint(0, TOTAL, (3, 5))], embedding_bag=1)
class BagsOfOneLength(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(TOTAL, DIM, mode="mean", sparse=True)

    def forward(self, x):
        return self.bag(x)


@problem(lambda: [torch.randint(0, 4, (7,)), torch.tensor([0, 3, 5]), torch.randint(0, 4, (6,))], embedding_bag=2)
class ABagForEachFeature(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.EmbeddingBag(4, DIM, mode="sum")
        self.second = nn.EmbeddingBag(4, DIM, mode="mean")

    def forward(self, a, offsets, b):
        return torch.cat([self.first(a, offsets), self.second(b, offsets)], dim=1)


@problem(lambda: [torch.randint(0, TOTAL, (9,)), torch.tensor([0, 2, 2, 9])], embedding_bag=1)
class TheLastOffsetIncluded(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(TOTAL, DIM, mode="sum", include_last_offset=True)

    def forward(self, x, offsets):
        return self.bag(x, offsets)


@problem(lambda: [torch.rand(4, 2) * 100], batch=(0,), bucketize=1)
class AgesToBuckets(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("edges", torch.tensor([18.0, 25.0, 35.0, 50.0, 65.0]))
        self.table = nn.Embedding(6, DIM)

    def forward(self, x):
        return self.table(torch.bucketize(x, self.edges))


@problem(lambda: [torch.randn(5)], bucketize=1)
class BySearch(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("quantiles", torch.linspace(-1, 1, 4))

    def forward(self, x):
        return torch.searchsorted(self.quantiles, x, right=True)


@problem(lambda: [torch.randint(0, 10**9, (4, FEATURES))], batch=(0,), hash_features=1, embedding_lookup=1)
class HashedIds(OneTable):
    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.tensor(ROWS))

    def forward(self, x):
        return self.table((x * 2654435761 + 97) % self.rows + self.starts)


@problem(lambda: [torch.randint(-50, 50, (4, FEATURES))], hash_features=1)
class RemainderOfNegativeIds(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.tensor([ROWS]))

    def forward(self, x):
        return torch.remainder(x, self.rows)


# ---- what only looks like them ---------------------------------------------------------------------------------------


@false_friend("embedding_lookup", ids)
class OneShiftForAll(OneTable):
    def forward(self, x):
        return self.table(x + 1)


@false_friend("embedding_lookup", lambda: [torch.randint(0, 4, (FEATURES, 4))])
class FeaturesInFront(OneTable):
    def forward(self, x):
        return self.table(x + self.starts[:, None])


@false_friend("embedding_lookup", ids)
class Clamped(OneTable):
    def forward(self, x):
        return self.table((x + self.starts).clamp(max=TOTAL - 1))


@false_friend("embedding_lookup", ids)
class IdsChangedInBetween(OneTable):
    """The ids are written after the sum was taken."""

    def forward(self, x):
        own = x * 1
        moved = own.view(-1, FEATURES) + self.starts
        own.view(-1).clamp_(max=2)
        return self.table(moved), own


@false_friend("embedding_bag", bags)
class BagOfMaxima(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(TOTAL, DIM, mode="max")

    def forward(self, x, offsets):
        return self.bag(x, offsets)


@false_friend("embedding_bag", lambda: [*bags(), torch.rand(9)])
class WeightedBag(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(TOTAL, DIM, mode="sum")

    def forward(self, x, offsets, weights):
        return self.bag(x, offsets, per_sample_weights=weights)


@false_friend("embedding_bag", bags)
class PaddingInBags(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(TOTAL, DIM, mode="mean", padding_idx=0)

    def forward(self, x, offsets):
        return self.bag(x, offsets)


@false_friend("bucketize", lambda: [torch.rand(3, 3), torch.rand(3, 5).sort().values])
class EdgesForEachRow(nn.Module):
    """As many rows as features, so that the shapes alone would fit."""

    def forward(self, x, edges):
        return torch.searchsorted(edges, x)


@false_friend("bucketize", lambda: [torch.randn(4)])
class NarrowBuckets(nn.Module):
    def forward(self, x):
        return torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0]), out_int32=True)


@false_friend("hash_features", lambda: [torch.randint(-50, 50, (4, FEATURES))])
class RemainderOfC(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.tensor(ROWS))

    def forward(self, x):
        return torch.fmod(x, self.rows)


@false_friend("hash_features", lambda: [torch.rand(4, FEATURES)])
class RemainderOfFloats(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("period", torch.tensor([0.3, 0.5, 0.7]))

    def forward(self, x):
        return x % self.period
