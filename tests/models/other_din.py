"""A second DIN for tests of recipes: other sizes and names, three attention layers with sigmoids, no scale.

Zhou et al., KDD 2018 (arXiv:1706.06978). Kept apart from `examples/din.py` on purpose: nothing is shared with it.
"""

import torch
from torch import nn

ROWS = 48
CLICKS = 60
SHOPS, GOODS, BRANDS = 3_000, 12_000, 700


class Relevance(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Sequential(
            nn.Linear(width * 4, 96),
            nn.Sigmoid(),
            nn.Linear(96, 48),
            nn.Sigmoid(),
            nn.Linear(48, 24),
            nn.Sigmoid(),
        )
        self.score = nn.Linear(24, 1)

    def forward(self, target, clicks, present):
        target = target[:, None, :].expand_as(clicks)
        crossed = torch.cat((target, clicks, target - clicks, target * clicks), 2)
        score = self.score(self.inner(crossed))[..., 0]
        score = torch.where(present, score, torch.full_like(score, -1e4))
        return score.softmax(1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(11)
        self.shops = nn.Embedding(SHOPS, 16)
        self.goods = nn.Embedding(GOODS, 24)
        self.brands = nn.Embedding(BRANDS, 24)
        self.relevance = Relevance(48)
        self.tower = nn.Sequential(nn.Linear(16 + 48 + 48, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, shop, good, brand, clicked_goods, clicked_brands, present):
        target = torch.cat((self.goods(good), self.brands(brand)), 1)
        clicks = torch.cat((self.goods(clicked_goods), self.brands(clicked_brands)), 2)
        weights = self.relevance(target, clicks, present)
        taste = (weights[..., None] * clicks).sum(1)
        return self.tower(torch.cat((self.shops(shop), target, taste), 1)).log_softmax(1)


def get_inputs():
    def ids(rows, *shape):
        return torch.randint(0, rows, shape)

    present = torch.arange(CLICKS) < torch.randint(1, CLICKS + 1, (ROWS, 1))
    goods, brands = ids(GOODS, ROWS, CLICKS), ids(BRANDS, ROWS, CLICKS)
    return [ids(SHOPS, ROWS), ids(GOODS, ROWS), ids(BRANDS, ROWS), goods, brands, present]
