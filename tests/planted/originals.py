"""The models into which faults are planted: each is small, and does one thing that rewrites get wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from optimizer.spec import Workload

BATCH = {"batch": {"serve": [24], "min": 1, "max": 64}}


@dataclass(frozen=True)
class Original:
    """A model and how it is called."""

    module: nn.Module
    workload: Workload


def original(module: nn.Module, inputs: list[dict[str, Any]], **more: Any) -> Original:
    return Original(module.eval(), Workload.model_validate({"inputs": inputs, **more}))


def floats(name: str, *shape: Any, **values: Any) -> dict[str, Any]:
    return {"name": name, "dtype": "float32", "shape": list(shape), **({"values": values} if values else {})}


def integers(name: str, *shape: Any, **values: Any) -> dict[str, Any]:
    return {"name": name, "dtype": "int64", "shape": list(shape), "values": values}


def flags(name: str, *shape: Any) -> dict[str, Any]:
    return {"name": name, "dtype": "bool", "shape": list(shape), "values": {"bernoulli": 0.7}}


class Tower(nn.Module):
    """A norm on the inputs, an exact GELU and a head."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm, self.hidden, self.head = nn.LayerNorm(16, eps=1e-6), nn.Linear(16, 32), nn.Linear(32, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.gelu(self.hidden(self.norm(x))))  # type: ignore[no-any-return]


class Attention(nn.Module):
    """Causal attention of two heads under a key mask; a row without any key averages over all of them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (heads(layer(x)) for layer in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2) / 2.0
        time = torch.arange(x.shape[1], device=x.device)
        seen = mask[:, None, None, :] & (time[None, :] <= time[:, None])
        weights = torch.softmax(scores.masked_fill(~seen, torch.finfo(scores.dtype).min), -1)
        return (weights @ v).transpose(1, 2).flatten(2)


def heads(x: Tensor) -> Tensor:
    return x.unflatten(-1, (2, 4)).transpose(1, 2)


class Bags(nn.Module):
    """The sum of the first `length` embeddings, zero for an empty bag."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.table, self.head = nn.Embedding(300, 8), nn.Linear(8, 2)

    def forward(self, ids: Tensor, length: Tensor) -> Tensor:
        kept = torch.arange(ids.shape[1], device=ids.device)[None, :] < length[:, None]
        return self.head((self.table(ids) * kept[..., None]).sum(1))  # type: ignore[no-any-return]


class Segments(nn.Module):
    """Rows summed by segment; a segment without rows is zero."""

    def forward(self, rows: Tensor, segment: Tensor) -> Tensor:
        return torch.zeros(6, rows.shape[1]).index_add(0, segment, rows)


class Hashed(nn.Module):
    """Ids of forty bits fall into 97 rows."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.table = nn.Embedding(97, 4)

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids % 97).sum(1)  # type: ignore[no-any-return]


class Weighted(nn.Module):
    """Weights that are NaN where a row has nothing left: its own callers rely on seeing that."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return (torch.softmax(x.masked_fill(~mask, float("-inf")), -1) * x).sum(-1)


class Ranking(nn.Module):
    """A user's features beside many items'."""

    def forward(self, user: Tensor, item: Tensor, ids: Tensor) -> Tensor:
        return (user * item).sum(1) + ids.sum(1) * item[:, 0]


class Blocks(nn.Module):
    """Three equal layers, so that what is left of one looks like another."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.table, self.head = nn.Embedding(40, 8), nn.Linear(8, 2)
        self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(3))
        self.ups = nn.ModuleList(nn.Linear(8, 16) for _ in range(3))
        self.downs = nn.ModuleList(nn.Linear(16, 8) for _ in range(3))

    def forward(self, x: Tensor, ids: Tensor) -> Tensor:
        h = x + self.table(ids).sum(1)
        for norm, up, down in zip(self.norms, self.ups, self.downs, strict=True):
            normed = norm(h)
            wide = up(normed)
            active = F.gelu(wide)
            narrow = down(active)
            h = h + narrow
        logits = self.head(h)
        return torch.sigmoid(logits)


class Embedded(nn.Module):
    """A norm behind an embedding: nothing that is handed in makes its variance small."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.table, self.norm = nn.Embedding(60, 16), nn.LayerNorm(16, eps=1e-6)
        self.hidden, self.head = nn.Linear(16, 16, bias=False), nn.Linear(16, 3)

    def forward(self, ids: Tensor) -> Tensor:
        rows = self.table(ids)
        normed = self.norm(rows)
        hidden = self.hidden(normed)
        return self.head(hidden.mean(1))  # type: ignore[no-any-return]


TOWER = original(Tower(), [floats("x", "batch", 16)], dims=BATCH)
ATTENTION = original(
    Attention(),
    [floats("x", "batch", "time", 8), flags("mask", "batch", "time")],
    dims={"batch": {"serve": [6], "min": 1, "max": 12}, "time": {"serve": [10], "min": 2, "max": 24}},
)
BAGS = original(
    Bags(),
    [integers("ids", "batch", 8, zipf=1.1, below=300), integers("length", "batch", **{"from": 0, "below": 9})],
    dims=BATCH,
)
SEGMENTS = original(Segments(), [floats("rows", 24, 5), integers("segment", 24, below=6)])
HASHED = original(Hashed(), [integers("ids", "batch", 4, below=1 << 40)], dims=BATCH)
WEIGHTED = original(Weighted(), [floats("x", "batch", 6), flags("mask", "batch", 6)], dims=BATCH)
RANKING = original(
    Ranking(),
    [floats("user", "batch", 3), floats("item", "batch", 3), integers("ids", "batch", 2, below=5)],
    dims=BATCH,
    contracts=[{"same_over_batch": ["user", "ids"]}],
)
BLOCKS = original(Blocks(), [floats("x", "batch", 8), integers("ids", "batch", 4, below=40)], dims=BATCH)
EMBEDDED = original(Embedded(), [integers("ids", "batch", 5, below=60)], dims=BATCH)
