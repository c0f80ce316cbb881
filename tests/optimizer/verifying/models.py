"""Small models with a masked sequence, an embedding and two outputs, and the wrong candidates made of them."""

from __future__ import annotations

import threading
import time
from typing import Any

import torch
from torch import Tensor, nn

from optimizer.spec import Workload

WORKLOAD = Workload.model_validate(
    {
        "inputs": [
            {"name": "dense", "dtype": "float32", "shape": ["batch", 8]},
            {"name": "ids", "dtype": "int64", "shape": ["batch", 6], "values": {"zipf": 1.1, "below": 50}},
            {"name": "mask", "dtype": "bool", "shape": ["batch", 6], "values": {"bernoulli": 0.7}},
        ],
        "dims": {"batch": {"serve": [32, 48], "min": 1, "max": 96}},
    }
)


class Ranker(nn.Module):
    """Attention-like pooling over `ids` under `mask`, a layer norm, and two heads."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.table = nn.Embedding(50, 8)
        self.score = nn.Linear(8, 1)
        self.norm = nn.LayerNorm(8, eps=1e-5)
        self.hidden = nn.Linear(16, 32)
        self.click = nn.Linear(32, 1)
        self.buy = nn.Linear(32, 1)
        self.use_mask, self.masked_value = True, torch.finfo(torch.float32).min
        self.shift = 0

    def forward(self, dense: Tensor, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        rows = self.table((ids + self.shift) % 50)
        scores = self.score(rows)[..., 0]
        if self.use_mask:
            scores = scores.masked_fill(~mask, self.masked_value)
        pooled = (torch.softmax(scores, -1)[..., None] * rows).sum(1)
        joined = torch.cat([self.norm(dense), pooled], -1)
        hidden = torch.relu(self.hidden(joined))
        return torch.sigmoid(self.click(hidden)), self.buy(hidden)


class Reassociated(nn.Module):
    """The same function in another order of additions: split matrices, mean and variance by hand."""

    def __init__(self, ranker: Ranker, permutation: Tensor) -> None:
        super().__init__()
        self.r, self.p = ranker, permutation

    def forward(self, dense: Tensor, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        r, p = self.r, self.p
        rows = r.table(ids)[..., p]
        scores = (rows * r.score.weight[0, p]).sum(-1) + r.score.bias
        scores = scores.masked_fill(~mask, r.masked_value)
        powers = torch.exp(scores - scores.amax(-1, keepdim=True))
        pooled = torch.einsum("bs,bsd->bd", powers, rows) / powers.sum(-1, keepdim=True)
        centred = dense - dense.mean(-1, keepdim=True)
        normed = centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + r.norm.eps)
        normed = normed * r.norm.weight + r.norm.bias
        w = r.hidden.weight
        hidden = torch.relu(pooled @ w[:, 8:][:, p].T + (normed @ w[:, :8].T + r.hidden.bias))
        return torch.sigmoid(r.click(hidden)), hidden @ r.buy.weight.T + r.buy.bias


class Delayed:
    """Hands over an empty buffer and fills it from another thread once the timer has stopped."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        answer = self.model(*inputs)
        buffers = tuple(torch.zeros_like(a) for a in answer)

        def fill() -> None:
            time.sleep(0.02)
            for buffer, value in zip(buffers, answer, strict=True):
                buffer.copy_(value)

        threading.Thread(target=fill, daemon=True).start()
        return buffers


class SharedBuffer:
    """Writes every answer into the same memory, so that an answer kept is lost at the next call."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.buffers: dict[Any, list[Tensor]] = {}

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        answer = self.model(*inputs)
        kept = self.buffers.setdefault(inputs[0].shape, [torch.empty_like(a) for a in answer])
        for buffer, value in zip(kept, answer, strict=True):
            buffer.copy_(value)
        return tuple(kept)
