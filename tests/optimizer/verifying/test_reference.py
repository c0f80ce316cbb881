from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from optimizer.errors import FuseworksError
from optimizer.verifying.bisect import first_difference
from optimizer.verifying.reference import TorchReference


def reference_of(model: nn.Module, inputs: tuple[Tensor, ...], path: Path, dynamic: Any = None) -> TorchReference:
    torch.export.save(torch.export.export(model.eval(), inputs, dynamic_shapes=dynamic), path)
    return TorchReference(path)


def answer(reference: TorchReference, *inputs: Tensor) -> list[np.ndarray]:
    return reference.outputs(reference.call(reference.stage([i.numpy() for i in inputs])))


class HandWritten(nn.Module):
    """Attention as people write it: finfo, a cast inside, a float32 arange, integer division."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.register_buffer("scale", torch.tensor(8.0).sqrt())

    def forward(self, x: Tensor, mask: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.q(x) @ self.k(x).transpose(-1, -2) / self.scale
        scores = scores.masked_fill(mask[:, None, :] == 0, torch.finfo(scores.dtype).min)
        weights = F.softmax(scores.float(), -1).to(x.dtype)
        position = torch.arange(x.shape[1], dtype=torch.float32, device=x.device)
        state = torch.zeros(x.shape[0], 8)
        share = (count / 3)[:, None] + count[:, None] * 0.1
        mixed = (weights @ self.v(x)) * torch.cos(position)[None, :, None] + torch.tensor([0.1])
        return mixed.sum(1) + state + share, weights.argmax(-1)


def by_hand(model: HandWritten, x: Tensor, mask: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """The same in float64, written with float64 from end to end."""
    weights = {n: p.double() for n, p in model.named_parameters()}

    def linear(name: str, x: Tensor) -> Tensor:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    x = x.double()
    scores = linear("q", x) @ linear("k", x).transpose(-1, -2) / model.scale.double()
    scores = torch.where(mask[:, None, :] == 0, -torch.inf, scores)
    attention = torch.softmax(scores, -1)
    position = torch.arange(x.shape[1], dtype=torch.float64)
    mixed = (attention @ linear("v", x)) * torch.cos(position)[None, :, None] + float(np.float32(0.1))
    share = (count.double() / 3)[:, None] + count.double()[:, None] * 0.1
    return mixed.sum(1) + share, attention.argmax(-1)


def test_every_float32_in_the_graph_becomes_float64(tmp_path: Path) -> None:
    model = HandWritten()
    batch = torch.export.Dim("batch", min=1, max=16)
    x, mask, count = torch.randn(4, 5, 8), torch.ones(4, 5), torch.arange(4)
    mask[:, 3:] = 0
    reference = reference_of(model, (x, mask, count), tmp_path / "m.pt2", ({0: batch},) * 3)
    got = answer(reference, x, mask, count)
    expected = by_hand(model, x, mask, count)
    assert got[0].dtype == np.float64
    np.testing.assert_allclose(got[0], expected[0].detach().numpy(), rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(got[1], expected[1].numpy())
    bigger = answer(reference, *(torch.cat([t, t]) for t in (x, mask, count)))
    np.testing.assert_allclose(bigger[0], np.concatenate([got[0], got[0]]), rtol=1e-12)


class Recurrent(nn.Module):
    """An LSTM that makes its own first state, under autocast: both are float32 by default only."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm, self.head = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(1, x.shape[0], 6)
        out, _ = self.lstm(x, (h, torch.ones_like(h)))
        with torch.autocast("cpu", torch.bfloat16):
            y = self.head(out)
        return y.float()


def test_created_states_and_autocast_regions_are_float64_too(tmp_path: Path) -> None:
    model, x = Recurrent(), torch.randn(3, 5, 4)
    [got] = answer(reference_of(model, (x,), tmp_path / "m.pt2"), x)
    double = Recurrent().double()
    h = torch.zeros(1, 3, 6, dtype=torch.float64)
    out, _ = double.lstm(x.double(), (h, torch.ones_like(h)))
    np.testing.assert_allclose(got, double.head(out).detach().numpy(), rtol=1e-12)


class Bits(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.view(torch.int32) & 1


def test_a_graph_that_reads_a_floats_bits_is_refused_with_the_node(tmp_path: Path) -> None:
    with pytest.raises(FuseworksError) as caught:
        reference_of(Bits(), (torch.randn(3),), tmp_path / "m.pt2")
    assert caught.value.id == "verifying:user:no-reference"
    assert caught.value.place is not None and caught.value.place.startswith("view")


class Scalar(nn.Module):
    def forward(self, x: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return x * k, k + 1


def test_a_scalar_travels_as_one_element_and_is_staged_as_a_scalar(tmp_path: Path) -> None:
    reference = reference_of(Scalar(), (torch.randn(3), torch.tensor(2.0)), tmp_path / "m.pt2")
    product, sum_ = reference.outputs(
        reference.call(reference.stage([np.ones(3, dtype=np.float32), np.array([4.0], dtype=np.float32)]))
    )
    assert product.tolist() == [4.0, 4.0, 4.0] and sum_.shape == ()


class Chain(nn.Module):
    def __init__(self, epsilon: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.epsilon = nn.Linear(4, 4), nn.Linear(4, 4), epsilon

    def forward(self, x: Tensor) -> Tensor:
        h = F.layer_norm(self.first(x), [4], eps=self.epsilon)
        return torch.sigmoid(self.second(h))


def test_the_first_diverging_operation_is_named(tmp_path: Path) -> None:
    x = torch.randn(5, 4)
    for name, epsilon in (("original", 1e-5), ("same", 1e-5), ("wrong", 1.1e-5)):
        torch.export.save(torch.export.export(Chain(epsilon).eval(), (x,)), tmp_path / f"{name}.pt2")
    found = first_difference(tmp_path / "original.pt2", tmp_path / "wrong.pt2", [x.numpy()])
    assert found is not None and found.startswith("aten.layer_norm.default (layer_norm")
    assert "test_reference.py:" in found
    assert first_difference(tmp_path / "original.pt2", tmp_path / "same.pt2", [x.numpy()]) is None
