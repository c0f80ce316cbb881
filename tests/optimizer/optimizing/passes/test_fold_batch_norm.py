"""Batch norm in evaluation goes into the weights before it; what cannot be folded stays, with the reason."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tests.optimizer.optimizing.support import BATCH, assert_equal_results, count, export, reasons, rewrite
from tests.optimizer.optimizing.truth import assert_same

aten = torch.ops.aten


def used(norm: nn.Module) -> nn.Module:
    """A norm that has seen data: nothing is 0 or 1."""
    draw = torch.Generator().manual_seed(1)
    norm.running_mean.copy_(torch.randn(norm.num_features, generator=draw))
    norm.running_var.copy_(torch.rand(norm.num_features, generator=draw) + 0.5)
    if norm.affine:
        norm.weight.data.copy_(torch.randn(norm.num_features, generator=draw))
        norm.bias.data.copy_(torch.randn(norm.num_features, generator=draw))
    return norm


def folded(model: nn.Module, *shape: int) -> tuple[Any, Any, nn.Module]:
    torch.manual_seed(0)
    exported = export(model, torch.randn(3, *shape), dims=({0: BATCH},))
    result, graph = rewrite(exported, "fold_batch_norm")
    return result, graph, model


FOLDED = {
    "conv1d": (lambda: (nn.Conv1d(4, 6, 3), nn.BatchNorm1d(6)), (4, 9)),
    "conv2d without a bias": (lambda: (nn.Conv2d(3, 5, 3, stride=2, bias=False), nn.BatchNorm2d(5)), (3, 8, 7)),
    "grouped conv2d": (lambda: (nn.Conv2d(4, 8, 3, padding=1, groups=4), nn.BatchNorm2d(8, eps=1e-2)), (4, 5, 5)),
    "conv2d padded by name": (lambda: (nn.Conv2d(3, 4, 3, padding="same"), nn.BatchNorm2d(4)), (3, 5, 5)),
    "conv3d": (lambda: (nn.Conv3d(2, 3, 2), nn.BatchNorm3d(3)), (2, 3, 4, 5)),
    "transposed conv1d": (lambda: (nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1), nn.BatchNorm1d(6)), (4, 9)),
    "grouped transposed conv2d": (
        lambda: (nn.ConvTranspose2d(4, 6, 3, groups=2, bias=False), nn.BatchNorm2d(6)),
        (4, 5, 3),
    ),
    "transposed conv3d": (lambda: (nn.ConvTranspose3d(2, 3, 2, output_padding=0), nn.BatchNorm3d(3)), (2, 3, 4, 5)),
    "linear": (lambda: (nn.Linear(7, 5), nn.BatchNorm1d(5)), (7,)),
    "without weight and bias": (lambda: (nn.Linear(7, 5), nn.BatchNorm1d(5, affine=False)), (7,)),
}


@pytest.mark.parametrize("case", FOLDED)
def test_the_norm_goes_into_the_weights(case: str) -> None:
    layers, shape = FOLDED[case]
    torch.manual_seed(0)
    layer, norm = layers()
    result, graph, model = folded(nn.Sequential(layer, used(norm), nn.ReLU()), *shape)
    assert len(result.applied) == 1, reasons(result.refused)
    assert count(graph, aten.batch_norm) == 0
    assert len(graph.operations()) == 2, "the layer and the activation"
    draw = torch.Generator().manual_seed(2)
    assert_same(model, graph, *[(torch.randn(batch, *shape, generator=draw),) for batch in (1, 5)])


def test_the_folded_weight_is_what_the_formula_says() -> None:
    linear, norm = nn.Linear(1, 1), nn.BatchNorm1d(1, eps=0.0)
    linear.weight.data.fill_(3.0)
    linear.bias.data.fill_(1.0)
    norm.running_mean.fill_(2.0)
    norm.running_var.fill_(4.0)
    norm.weight.data.fill_(10.0)
    norm.bias.data.fill_(0.5)
    _, graph, _ = folded(nn.Sequential(linear, norm), 1)
    (call,) = graph.operations(aten.linear)
    assert graph.constant_value(call.args[1]).item() == 15.0  # 3 * 10 / 2
    assert graph.constant_value(call.args[2]).item() == -4.5  # (1 - 2) * 10 / 2 + 0.5


def test_dropout_between_does_not_matter() -> None:
    model = nn.Sequential(nn.Linear(7, 5), nn.Dropout(0.3), used(nn.BatchNorm1d(5)))
    result, graph, model = folded(model, 7)
    assert len(result.applied) == 1, reasons(result.refused)
    assert count(graph, aten.batch_norm) == 0
    assert_same(model, graph, (torch.randn(4, 7),))


def test_a_chain_is_folded_and_exports_again() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), used(nn.BatchNorm2d(4)), nn.ReLU(), nn.Conv2d(4, 2, 3), used(nn.BatchNorm2d(2))
    )
    result, graph, model = folded(model, 3, 8, 8)
    assert len(result.applied) == 2
    assert_equal_results(model, graph, (torch.randn(1, 3, 8, 8),), (torch.randn(6, 3, 8, 8),))


class Transposed(nn.Module):
    """The norm runs over the features of a linear layer, which are put in dimension 1 for it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(6, 4), used(nn.BatchNorm1d(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(x).transpose(1, 2)).permute(0, 2, 1).relu()


class Towers(nn.Module):
    """Two linear layers, one of them behind dropout, read what the norm gives."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.dropout = used(nn.BatchNorm1d(5)), nn.Dropout(0.2)
        self.a, self.b = nn.Linear(5, 3, bias=False), nn.Linear(5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x.abs())
        return torch.cat([self.a(x), self.b(self.dropout(x))], 1)


BEHIND = {
    "linear": (lambda: nn.Sequential(nn.ReLU(), used(nn.BatchNorm1d(7)), nn.Linear(7, 5)), (7,), 2),
    "conv without padding": (
        lambda: nn.Sequential(nn.ReLU(), used(nn.BatchNorm2d(4)), nn.Conv2d(4, 6, 3, groups=2, bias=False)),
        (4, 6, 5),
        2,
    ),
    "permuted linear": (Transposed, (3, 6), 4),
    "all of two layers": (Towers, (5,), 4),
}


@pytest.mark.parametrize("case", BEHIND)
def test_it_goes_into_what_is_behind_or_before_a_permutation(case: str) -> None:
    build, shape, calls = BEHIND[case]
    torch.manual_seed(0)
    result, graph, model = folded(build(), *shape)
    assert len(result.applied) == 1, reasons(result.refused)
    assert count(graph, aten.batch_norm) == 0
    assert len(graph.operations()) == calls, [str(n.target) for n in graph.operations()]
    draw = torch.Generator().manual_seed(3)
    assert_same(model, graph, *[(torch.randn(batch, *shape, generator=draw),) for batch in (1, 6)])


def test_a_padded_convolution_takes_a_norm_that_shifts_nothing() -> None:
    torch.manual_seed(0)
    norm = used(nn.BatchNorm1d(4))
    norm.running_mean.zero_()
    norm.bias.data.zero_()
    result, graph, model = folded(nn.Sequential(nn.ReLU(), norm, nn.Conv1d(4, 3, 3, padding=1)), 4, 6)
    assert len(result.applied) == 1, reasons(result.refused)
    assert_same(model, graph, (torch.randn(5, 4, 6),))


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(4, 4, 1), used(nn.BatchNorm1d(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        return self.norm(x) + x


class NormedTwice(nn.Module):
    """What the norm gives goes into a linear layer and into a product."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = used(nn.BatchNorm1d(4)), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x.relu())
        return self.linear(x) * x


REFUSED = {
    "batch's own statistics": (
        lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, track_running_stats=False)),
        (4,),
    ),
    "other users": (Shared, (4, 5)),
    "no convolution or linear": (lambda: nn.Sequential(nn.ReLU(), used(nn.BatchNorm1d(4))), (4, 5)),
    "pads its input with zeros, which the shift does not move": (
        lambda: nn.Sequential(nn.ReLU(), used(nn.BatchNorm1d(4)), nn.Conv1d(4, 3, 2, padding="same")),
        (4, 5),
    ),
    "a shift does not reach all of the kernel": (
        lambda: nn.Sequential(nn.ReLU(), used(nn.BatchNorm1d(4)), nn.ConvTranspose1d(4, 3, 2)),
        (4, 5),
    ),
    "which linear does not sum over": (
        lambda: nn.Sequential(nn.ReLU(), used(nn.BatchNorm1d(4)), nn.Linear(5, 3)),
        (4, 5),
    ),
    "mul needs it, too": (NormedTwice, (4,)),
    "runs over dimension 1": (lambda: nn.Sequential(nn.Linear(5, 6), used(nn.BatchNorm1d(4))), (4, 5)),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_it_refuses_what_it_cannot_fold_with_the_reason(reason: str) -> None:
    build, shape = REFUSED[reason]
    torch.manual_seed(0)
    result, graph, model = folded(build(), *shape)
    assert result.applied == []
    assert any(reason in r for r in reasons(result.refused)), reasons(result.refused)
    assert_same(model, graph, (torch.randn(4, *shape),))


def test_a_computed_weight_is_refused() -> None:
    draw = torch.randn(2, 4, 5)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = used(nn.BatchNorm1d(4))

        def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            return self.norm(torch.nn.functional.conv1d(x, weight))

    weight = torch.randn(4, 4, 1)
    result, _ = rewrite(export(Model(), draw, weight), "fold_batch_norm")
    assert result.applied == []
    assert "is not constant" in result.refused[0].reason
