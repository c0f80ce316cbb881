"""Bounds of masks and biases: worked out by hand; what is not known is unbounded."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from optimizer.optimizing.graph import Graph
from optimizer.optimizing.value_bounds import UNKNOWN, bounds
from tests.optimizer.optimizing.support import export
from tests.optimizer.optimizing.truth import Calls

LOWEST = torch.finfo(torch.float32).min
CASES: dict[str, tuple[Any, tuple[float, float]]] = {
    "an input": (lambda m, x, b: x, UNKNOWN),
    "a logarithm": (lambda m, x, b: x.abs().log(), UNKNOWN),
    "truth as a float": (lambda m, x, b: b.float(), (0.0, 1.0)),
    "one minus truth, times -1e4": (lambda m, x, b: (1.0 - b.float()) * -10000.0, (-1e4, 0.0)),
    "the lowest twice is -inf": (lambda m, x, b: b * LOWEST + b * LOWEST, (-math.inf, 0.0)),
    "a choice": (lambda m, x, b: torch.where(b, 2.0, -3.0), (-3.0, 2.0)),
    "filled": (lambda m, x, b: torch.sigmoid(x).masked_fill(b, -5.0), (-5.0, 1.0)),
    "a table": (lambda m, x, b: m.table[b.long()].permute(1, 0, 2) - 1, (-4.0, 8.0)),
    "a triangle": (lambda m, x, b: torch.full((4, 4), -7.0).triu(1) * b, (-7.0, 0.0)),
    "infinity times nothing": (lambda m, x, b: b * -math.inf, UNKNOWN),
    "through a wider whole number": (lambda m, x, b: x.to(torch.int8).float(), (-128.0, 127.0)),
}


@pytest.mark.parametrize("case", CASES)
def test_the_bounds_hold_what_the_values_can_be(case: str) -> None:
    function, expected = CASES[case]
    model = Calls(function, table=torch.tensor([[-3.0, 0.5], [2.0, 9.0]]))
    graph = Graph.from_exported(export(model, torch.randn(4, 4), torch.rand(4, 4) > 0.5))
    assert bounds(graph, graph.outputs[0]) == expected
