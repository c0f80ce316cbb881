"""Bounds of absolute values, worked out by hand; infinite where an input, or a step on the way, may be no number."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from optimizer.optimizing.graph import Graph
from optimizer.optimizing.magnitudes import largest
from tests.optimizer.optimizing.support import export
from tests.optimizer.optimizing.truth import Calls

TABLE = torch.tensor([[1.0, -3.0], [2.0, 0.0]])
WEIGHT = torch.tensor([[1.0, -2.0], [0.0, 4.0]])
BIAS = torch.tensor([0.5, -1.0])

KNOWN = {
    "a table": (lambda m, ids, x: F.embedding(ids, m.table), 3.0),
    # rows of absolute sums 3 and 4, times 3, and 1
    "a layer": (lambda m, ids, x: F.linear(F.embedding(ids, m.table), m.weight, m.bias), 13.0),
    "a layer by matmul": (lambda m, ids, x: F.embedding(ids, m.table) @ m.weight.t(), 12.0),
    "a residual": (lambda m, ids, x: F.embedding(ids, m.table) * 2 + F.embedding(ids, m.table).relu(), 9.0),
    "a difference": (lambda m, ids, x: torch.sub(F.embedding(ids, m.table), 1.0, alpha=2), 5.0),
    "joined": (lambda m, ids, x: torch.cat([F.embedding(ids, m.table), F.embedding(ids, m.weight)], -1), 4.0),
    "a gate": (lambda m, ids, x: F.embedding(ids, m.table) * F.embedding(ids, m.weight).sigmoid(), 3.0),
    # the root of two elements, times 4 (the weight's own bound), and 1
    "a norm": (lambda m, ids, x: F.layer_norm(F.embedding(ids, m.table), [2], m.scale, m.bias), 4 * 2**0.5 + 1),
}
UNKNOWN = {
    "an input": lambda m, ids, x: F.linear(x, m.weight),
    "an input behind a sigmoid": lambda m, ids, x: torch.sigmoid(x),
    "a quotient": lambda m, ids, x: F.embedding(ids, m.table) / F.embedding(ids, m.weight),
    "a table with NaN": lambda m, ids, x: F.embedding(ids, m.broken),
    "beyond the dtype": lambda m, ids, x: F.embedding(ids, m.table) * 3e38,
    "beyond it on the way": lambda m, ids, x: (F.embedding(ids, m.table) * 3e38) * 0.0,
}


def bound(function: Any) -> float:
    broken = torch.tensor([[math.nan, 0.0], [0.0, 0.0]])
    model = Calls(function, table=TABLE, weight=WEIGHT, bias=BIAS, scale=torch.tensor([4.0, 0.0]), broken=broken)
    graph = Graph.from_exported(export(model, torch.tensor([0, 1, 1]), torch.randn(3, 2)))
    return largest(graph, graph.outputs[0])


@pytest.mark.parametrize("name", KNOWN)
def test_the_bound_is_that_of_the_largest_values(name: str) -> None:
    function, expected = KNOWN[name]
    assert bound(function) == pytest.approx(expected)


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_may_be_no_number_has_no_bound(name: str) -> None:
    assert bound(UNKNOWN[name]) == math.inf
