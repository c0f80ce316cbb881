"""Small models whose kernels on a GPU a person can foretell, with a dynamic batch; and a child to lower them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

import optimizer.predicting.errors  # noqa: F401
from optimizer.predicting.document import Lowering
from optimizer.sandbox import ChildSpec, start
from optimizer.spec import Workload

BATCH, WIDTH = 256, 64


class Residual(nn.Module):
    """One product, and around it what one kernel can do at once: bias, GELU, the sum, the norm."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.product = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + nn.functional.gelu(self.product(x)))


class Attention(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


class Lookups(nn.Module):
    """Rows of two tables side by side: gathers, and a concatenation whose parts are read under masks."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Embedding(10_000, 16), nn.Embedding(5, 16)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.one(ids[:, 0]), self.other(ids[:, 1])], 1)


class Summed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(10_000, 16, mode="sum")

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.bag(ids)


class Fused(nn.Module):
    """A fused operation of ours, as the passes put it into graphs."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return torch.ops.fuseworks.add_rms_norm(x, y, self.weight, 1e-6)


class DataDependent(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x > 0] * 2


def workload(*inputs: tuple[str, list[int | str]]) -> Workload:
    return Workload.model_validate(
        {
            "inputs": [{"name": f"x{n}", "dtype": dtype, "shape": shape} for n, (dtype, shape) in enumerate(inputs)],
            "dims": {"batch": {"serve": [BATCH], "min": 1, "max": 1024}},
        }
    )


def save(module: nn.Module, arguments: tuple[torch.Tensor, ...], path: Path) -> Path:
    """Exported at another batch than the measured one: sizes must come from the workload."""
    batch = torch.export.Dim("batch", min=1, max=1024)
    with torch.no_grad():
        exported = torch.export.export(module.eval(), arguments, dynamic_shapes=tuple({0: batch} for _ in arguments))
    torch.export.save(exported, path)
    return path


def lowered(path: Path, given: Workload, target: str = "cuda:sm_90") -> Lowering:
    """In a child of its own: what torch is told of a device stays with its process."""
    with start(ChildSpec(name="predict", inputs={"model": path}, trusted=True)) as child:
        reply = child.call(
            "predicting.lower",
            timeout_s=300,
            models={"model": child.path("model")},
            target=target,
            workload=given.model_dump(by_alias=True, mode="json"),
        )
    document: dict[str, Any] = reply.fields["lowered"]["model"]
    return Lowering.model_validate(document)
