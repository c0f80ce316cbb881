"""A next-item scorer that keeps the last step's logits alone: nine tenths of its work can be left out."""

import torch
from torch import nn

BATCH, STEPS, ITEMS = 48, 10, 400


class Model(nn.Module):
    def __init__(self, width=192, hidden=768):
        super().__init__()
        torch.manual_seed(5)
        self.items = nn.Embedding(ITEMS, width)
        self.blocks = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width), nn.LayerNorm(width), nn.Linear(width, hidden)
        )
        self.head = nn.Linear(hidden, ITEMS)

    def forward(self, history):
        logits = self.head(self.blocks(self.items(history)))
        return logits[:, -1]


def get_inputs():
    return [torch.randint(0, ITEMS, (BATCH, STEPS))]
