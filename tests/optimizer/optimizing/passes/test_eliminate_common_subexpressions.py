"""Equal calls are made once; calls that differ in any argument, or that must differ, are not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.optimizer.optimizing.support import BATCH, assert_equal_results, count, export, reasons, rewrite
from tests.optimizer.optimizing.truth import Calls, assert_same

aten = torch.ops.aten


def inputs(batch: int) -> tuple[torch.Tensor]:
    return (torch.randn(batch, 4, 6, generator=torch.Generator().manual_seed(batch)),)


def merged(function: Any, **buffers: torch.Tensor) -> tuple[Any, Any, Calls]:
    model = Calls(function, **buffers)
    result, graph = rewrite(export(model, *inputs(3), dims={"args": ({0: BATCH},)}), "eliminate_common_subexpressions")
    return result, graph, model


MERGED = {
    "equal calls": lambda _, x: x.sin() * x.sin().cos(),
    "equal chains": lambda _, x: x.sin().exp().sum(-1) * x.sin().exp().sum(-1).cos(),
    "defaults written out": lambda _, x: torch.add(x, x) * torch.add(x, x, alpha=1).cos(),
    "keywords or not": lambda _, x: torch.sum(x, -1) * torch.sum(x, dim=-1, keepdim=False).cos(),
    "constants": lambda m, x: x * m.weight.sin() + m.weight.sin().cos(),
    "no tensor argument": lambda _, x: x + torch.arange(6) * torch.arange(6),
    "several outputs": lambda _, x: x.topk(2).values * x.topk(2).values.cos(),
}


@pytest.mark.parametrize("case", MERGED)
def test_equal_calls_are_made_once(case: str) -> None:
    result, graph, model = merged(MERGED[case], weight=torch.ones(6))
    assert result.applied
    calls = [(n.target, n.args) for n in graph.operations()]
    assert len(calls) == len({str(c) for c in calls})
    assert_same(model, graph, inputs(1), inputs(5), tolerance=0)


DIFFERENT = {
    "another number": lambda _, x: (x + 1) * (x + 2),
    "an integer and a float": lambda m, x: (m.count + 1).sum() + (m.count + 1.0).sum() * x.sin(),
    "True and 1": lambda m, x: (m.count + True).sum() * (m.count + 1).sum() * x.sin(),
    "0.0 and -0.0": lambda _, x: torch.copysign(x, 0.0) + torch.copysign(x, -0.0),
    "another dimension": lambda _, x: x.softmax(-1) + x.softmax(1),
    "another dtype": lambda _, x: x.sum(0, dtype=torch.float64).sum() * x.sum(0, dtype=torch.float32),
    "operands the other way": lambda _, x: (x - x.sin()) * (x.sin() - x),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_calls_that_differ_stay_two(case: str) -> None:
    _, graph, model = merged(DIFFERENT[case], count=torch.arange(3))
    _, again, _ = merged(DIFFERENT[case], count=torch.arange(3))
    assert len(graph.operations()) == len(again.operations())
    assert_same(model, graph, inputs(3), tolerance=0)
    if "operands" not in case:
        pairs = {str(n.target) for n in graph.operations()}
        assert len(graph.operations()) > len(pairs)


def test_random_numbers_are_drawn_twice() -> None:
    result, graph, _ = merged(lambda _, x: torch.rand_like(x) * torch.rand_like(x) + F.dropout(x, 0.5, True))
    assert result.applied == []
    assert count(graph, aten.rand_like) == 2


def test_uninitialised_memory_is_not_shared() -> None:
    result, _, _ = merged(lambda _, x: torch.empty_like(x).fill_(1) + torch.empty_like(x).fill_(2) + x)
    assert not any("empty" in site.node for site in result.applied)


def test_two_equal_outputs_stay_two_memories() -> None:
    result, graph, _ = merged(lambda _, x: (x.sin(), x.sin()))
    assert result.applied == []
    assert "both handed back" in reasons(result.refused)[0]
    a, b = graph.module(*inputs(2))
    assert a.data_ptr() != b.data_ptr()


def test_of_two_equal_values_of_which_one_is_handed_back_one_goes() -> None:
    result, graph, model = merged(lambda _, x: (x.sin(), x.sin().cos()))
    assert len(result.applied) == 1
    assert_same(model, graph, inputs(2), tolerance=0)


def test_what_is_written_in_place_is_left_alone() -> None:
    def function(_, x):
        a, b = x.sin(), x.sin()
        part = a[:, :1]
        part.add_(1)
        return a.cos() + b.cos()

    _, graph, model = merged(function)
    assert_same(model, graph, inputs(3), tolerance=0)


def test_the_rewritten_graph_exports_again_with_its_dynamic_batch() -> None:
    _, graph, model = merged(MERGED["equal chains"])
    assert_equal_results(model, graph, inputs(1), inputs(7))
