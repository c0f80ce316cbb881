"""Two captures of one model have one digest; anything else about graph or weights gives another."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from optimizer.capturing.content import content_digest


class Small(nn.Module):
    def __init__(self, *, scale: float = 2.0, bias: bool = True) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.l = nn.Linear(4, 2, bias=bias)
        self.scale = scale
        self.register_buffer("shift", torch.ones(2), persistent=False)
        self.constant = torch.arange(2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.l(x) * self.scale + self.shift + self.constant


def export(module: nn.Module | None = None, *, most: int = 8) -> ExportedProgram:
    dims = ({0: Dim("batch", min=1, max=most)},)
    return torch.export.export((module or Small()).eval(), (torch.ones(3, 4),), dynamic_shapes=dims)


def test_a_second_capture_and_one_that_was_saved_and_loaded_are_the_same_model(tmp_path: Path) -> None:
    first = content_digest(export())
    assert first is not None and len(first) == 64
    assert content_digest(export()) == first
    torch.export.save(export(), tmp_path / "m.pt2")
    assert content_digest(torch.export.load(tmp_path / "m.pt2")) is not None


@pytest.mark.parametrize("change", ["weight", "buffer", "constant", "graph", "layer", "range"])
def test_any_weight_and_any_operation_counts(change: str) -> None:
    module, most = Small(), 8
    with torch.no_grad():
        if change == "weight":
            module.l.weight[1, 3] += 1e-7 + module.l.weight[1, 3] * 1e-6
        elif change == "buffer":
            module.shift[1] = 3.0
        elif change == "constant":
            module.constant[0] = -1.0
        elif change == "graph":
            module.scale = 2.5
        elif change == "layer":
            module = Small(bias=False)
        else:
            most = 16
    assert content_digest(export(module, most=most)) != content_digest(export())


def test_numbers_of_every_width_and_no_dimension_have_bytes() -> None:
    module = Small()
    module.shift = torch.tensor(1.5, dtype=torch.bfloat16)
    assert content_digest(export(module)) is not None
