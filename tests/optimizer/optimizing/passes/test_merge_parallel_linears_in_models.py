"""Where models have parallel linears: cross attention, SwiGLU, packed gates, einsum; and what only looks like one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.optimizer.optimizing.support import BATCH, assert_equal_results, count, export, reasons, rewrite
from tests.optimizer.optimizing.truth import Calls, assert_same

aten = torch.ops.aten
DIM, MEMORY = 10, 6


def args(batch: int) -> tuple[torch.Tensor, ...]:
    draw = torch.Generator().manual_seed(batch)
    return torch.randn(batch, 5, DIM, generator=draw), torch.randn(batch, 7, MEMORY, generator=draw)


def merged(function: Any, **weights: torch.Tensor) -> tuple[Any, Any, Calls]:
    model = Calls(function, **weights)
    exported = export(model, *args(3), dims={"args": ({0: BATCH},) * 2})
    result, graph = rewrite(exported, "merge_parallel_linears")
    return result, graph, model


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


class CrossAttention(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v = nn.Linear(DIM, 8), nn.Linear(MEMORY, 8, bias=False), nn.Linear(MEMORY, 12)

    def forward(self, x, memory):
        q, k, v = self.q(x), self.k(memory), self.v(memory)
        q, k, v = (t.unflatten(-1, (2, -1)).transpose(1, 2) for t in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def test_cross_attention_merges_keys_with_values_and_leaves_the_queries_on_their_own_source():
    model = CrossAttention()
    exported = export(model, *args(3), dims=({0: BATCH}, {0: BATCH}))
    result, graph = rewrite(exported, "merge_parallel_linears")
    assert reasons(result.applied) == [f"part {i} of 2 of one linear layer with 20 output features" for i in (1, 2)]
    assert [tuple(graph.shape(n)[-1:]) for n in graph.operations(aten.linear)] == [(8,), (20,)]
    assert_equal_results(model, graph, args(1), args(6))


def test_the_gate_and_the_other_half_of_swiglu_of_unequal_bias_become_one():
    def function(m, x, memory):
        return F.silu(F.linear(x, m.gate)) * F.linear(x, m.up, m.bias) + memory.mean()

    result, graph, model = merged(function, gate=drawn(9, DIM), up=drawn(9, DIM), bias=drawn(9))
    assert len(result.applied) == 2
    (linear,) = graph.operations(aten.linear)
    assert torch.equal(graph.constant_value(linear.args[2]), torch.cat((torch.zeros(9), drawn(9))))
    assert_same(model, graph, args(1), args(4))


def test_gates_packed_in_one_layer_are_merged_with_those_beside_it():
    def function(m, x, memory):
        reset, update = F.linear(x, m.packed).chunk(2, -1)
        return torch.sigmoid(reset) * torch.tanh(F.linear(x, m.new)) + torch.sigmoid(update) * memory.mean()

    result, graph, model = merged(function, packed=drawn(8, DIM), new=drawn(4, DIM))
    assert len(result.applied) == 2 and count(graph, aten.linear) == 1
    assert_same(model, graph, args(1), args(4))


EINSUMS = {
    "weights in by out": ("bsd,df->bsf", (DIM, 3)),
    "weights out by in": ("bsd,fd->bsf", (3, DIM)),
    "an ellipsis": ("...d,df->...f", (DIM, 3)),
    "with spaces": ("b s d, d f -> b s f", (DIM, 3)),
}


@pytest.mark.parametrize("spelling", EINSUMS)
def test_an_einsum_over_the_features_is_a_linear_layer(spelling: str):
    equation, shape = EINSUMS[spelling]

    def function(m, x, memory):
        return torch.einsum(equation, x, m.weight) * F.linear(x, m.other, m.bias) + memory.mean()

    result, graph, model = merged(function, weight=drawn(*shape), other=drawn(3, DIM) * 2, bias=drawn(3))
    assert len(result.applied) == 2 and count(graph, aten.einsum) == 0
    assert_same(model, graph, args(1), args(4))


NO_LINEARS = {
    "over the positions": ("bsd,sf->bdf", (5, 3)),
    "result turned": ("bsd,df->bfs", (DIM, 3)),
    "one weight a position": ("bsd,sdf->bsf", (5, DIM, 3)),
    "features kept": ("bsd,fd->bsd", (3, DIM)),
}


@pytest.mark.parametrize("spelling", NO_LINEARS)
def test_an_einsum_of_another_kind_is_left_alone(spelling: str):
    equation, shape = NO_LINEARS[spelling]

    def function(m, x, memory):
        return torch.einsum(equation, x, m.weight).sum() * F.linear(x, m.other) + memory.mean()

    result, graph, model = merged(function, weight=drawn(*shape), other=drawn(3, DIM))
    assert result.applied == [] and count(graph, aten.einsum) == 1
    assert_same(model, graph, args(4))


def test_a_weight_of_another_dtype_and_a_weight_from_the_data_stay():
    def function(m, x, memory):
        half = F.linear(x.bfloat16(), m.narrow).float()
        return half + F.linear(x, m.wide) + F.linear(x, memory[0, :3, :].repeat(1, 2)[:, :DIM])

    result, graph, model = merged(function, narrow=drawn(3, DIM).bfloat16(), wide=drawn(3, DIM))
    assert result.applied == []
    assert reasons(result.refused) == ["the weight is not constant"]
    assert_same(model, graph, args(4))
