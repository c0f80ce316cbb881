"""One used position: the last layer's queries, projection, MLP and head run for it alone; keys, values stay whole."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from optimizer.optimizing.base import run_passes
from optimizer.optimizing.graph import Graph
from tests.optimizer.optimizing.support import (
    BATCH,
    TIME,
    assert_equal_results,
    assert_loads_elsewhere,
    export,
    reasons,
    rewrite,
)

aten = torch.ops.aten
DIM, HEADS, VOCABULARY = 16, 2, 11


class RMSNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(DIM) + 0.5)

    def forward(self, x):
        y = x.to(torch.float32)
        return self.weight * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


class Layer(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(DIM, DIM, bias=False) for _ in range(4))
        self.gate, self.up, self.down = nn.Linear(DIM, 24), nn.Linear(DIM, 24), nn.Linear(24, DIM)
        self.before, self.after, self.attention = RMSNorm(), RMSNorm(), attention

    def forward(self, x, cos, sin):
        batch, time, _ = x.shape
        y = self.before(x)
        q, k, v = (f(y).view(batch, time, HEADS, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = self.attention(rotate(q, cos, sin), rotate(k, cos, sin), v)
        x = x + self.o(y.transpose(1, 2).reshape(batch, time, -1))
        y = self.after(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def by_hand(q, k, v):
    time = q.shape[-2]
    mask = torch.triu(torch.full((time, time), float("-inf")), diagonal=1)
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]) + mask
    return torch.softmax(scores, -1, dtype=torch.float32).to(q.dtype) @ v


def fused_causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def fused_mask(q, k, v):
    time = q.shape[-2]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(time, time).tril().bool())


def bidirectional(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


ATTENTIONS = {"by hand": by_hand, "causal": fused_causal, "mask": fused_mask, "bidirectional": bidirectional}


class Decoder(nn.Module):
    def __init__(self, attention, take, layers=2):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.take = nn.Embedding(VOCABULARY, DIM), take
        self.layers = nn.ModuleList(Layer(attention) for _ in range(layers))
        self.norm, self.head = RMSNorm(), nn.Linear(DIM, VOCABULARY)
        angles = torch.outer(torch.arange(64).float(), torch.rand(DIM // HEADS))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens):
        x = self.embedding(tokens)
        cos, sin = self.cos[: tokens.shape[1]], self.sin[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.take(self, x)


def last(self, x):
    return self.head(self.norm(x))[:, -1]


def tokens(batch, time):
    return (torch.randint(0, VOCABULARY, (batch, time), generator=torch.Generator().manual_seed(time)),)


def built(attention=by_hand, take=last, layers=2):
    model = Decoder(attention, take, layers)
    return model, export(model, *tokens(3, 6), dims=({0: BATCH, 1: TIME},))


def lengths(graph: Graph, *ops) -> list[object]:
    """Positions of each such operation's output: 'all', or 1 (also where the dimension is gone)."""
    sizes = [graph.shape(n)[-2] if len(graph.shape(n)) > 2 else 1 for n in graph.operations(*ops)]
    return [s if isinstance(s, int) else "all" for s in sizes]


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_the_last_layer_runs_for_the_last_position_and_results_are_equal(attention):
    model, exported = built(ATTENTIONS[attention])
    result, graph = rewrite(exported, "last_token_pushdown")
    assert not result.refused and result.numerics == "exact"
    # first layer: q k v o gate up down whole; last layer: k and v whole, q o gate up down and the head for one
    assert lengths(graph, aten.linear).count("all") == 7 + 2
    assert lengths(graph, aten.linear).count(1) == 6
    assert any("linear runs for the last position only" in r for r in reasons(result.applied))
    assert all(s.source for s in result.applied)
    assert_equal_results(model, graph, tokens(1, 2), tokens(3, 6), tokens(5, 7))


def test_causal_attention_of_the_last_query_has_no_mask_and_is_not_causal():
    _, exported = built(fused_causal)
    _, graph = rewrite(exported, "last_token_pushdown")
    first, second = [graph.arguments(n) for n in graph.operations(aten.scaled_dot_product_attention)]
    assert first["is_causal"] is True
    assert second["is_causal"] is False and second["attn_mask"] is None
    assert graph.shape(second["query"])[-2] == 1
    assert not isinstance(graph.shape(second["key"])[-2], int)


def test_a_mask_keeps_the_last_query_row_only():
    _, exported = built(fused_mask)
    _, graph = rewrite(exported, "last_token_pushdown")
    masks = [graph.arguments(n)["attn_mask"] for n in graph.operations(aten.scaled_dot_product_attention)]
    assert graph.shape(masks[1])[-2] == 1 and not isinstance(graph.shape(masks[0])[-2], int)


TAKES = {
    "slice": lambda self, x: self.head(self.norm(x))[:, -1:],
    "select before the head": lambda self, x: self.head(self.norm(x)[:, -1]),
    "select of the hidden state": lambda self, x: self.head(self.norm(x[:, -1, :])),
    "two uses of the last position": lambda self, x: (self.head(self.norm(x))[:, -1], self.norm(x)[:, -1]),
    "transposed": lambda self, x: self.head(self.norm(x)).transpose(1, 2)[:, :, -1],
    "folded into heads": lambda self, x: self.norm(x).unflatten(-1, (HEADS, -1)).flatten(2)[:, -1],
}


@pytest.mark.parametrize("take", TAKES)
def test_every_spelling_of_the_last_position_is_pushed_down(take):
    model, exported = built(by_hand, TAKES[take], layers=1)
    result, graph = rewrite(exported, "last_token_pushdown")
    assert lengths(graph, aten.linear).count("all") == 2, reasons(result.refused)
    assert_equal_results(model, graph, tokens(1, 2), tokens(5, 7), again=False)


@pytest.mark.parametrize("attention", ["by hand", "mask", "bidirectional"])
def test_the_first_position_of_an_encoder_is_pushed_down_likewise(attention):
    model, exported = built(ATTENTIONS[attention], lambda self, x: torch.tanh(self.head(x[:, 0])), layers=1)
    result, graph = rewrite(exported, "last_token_pushdown")
    assert any("runs for position 0 only" in r for r in reasons(result.applied))
    assert lengths(graph, aten.linear).count("all") == 2
    assert_equal_results(model, graph, tokens(1, 2), tokens(5, 7), again=False)


def test_causal_attention_at_another_position_than_the_last_stays_whole():
    model, exported = built(fused_causal, lambda self, x: self.head(self.norm(x))[:, 0], layers=1)
    result, graph = rewrite(exported, "last_token_pushdown")
    assert [graph.arguments(n)["is_causal"] for n in graph.operations(aten.scaled_dot_product_attention)] == [True]
    assert lengths(graph, aten.linear).count("all") == 3 and result.applied
    assert_equal_results(model, graph, tokens(1, 2), tokens(5, 7), again=False)


def test_a_static_length_and_an_index_from_the_front_mean_the_last_position_too():
    model = Decoder(fused_causal, lambda self, x: self.head(self.norm(x))[:, 5], layers=1)
    result, graph = rewrite(export(model, *tokens(3, 6), dims=({0: BATCH},)), "last_token_pushdown")
    assert any("for the last position only" in r for r in reasons(result.applied))
    assert_equal_results(model, graph, tokens(1, 6), tokens(5, 6), again=False)


def test_it_follows_attention_fused_by_another_pass():
    model, exported = built(by_hand)
    graph = Graph.from_exported(exported)
    fused, pushed = run_passes(graph, [("fuse_attention", {}), ("last_token_pushdown", {})])
    assert fused.applied and pushed.applied
    assert lengths(graph, aten.scaled_dot_product_attention) == ["all", 1]
    assert_equal_results(model, graph, tokens(1, 2), tokens(5, 7), tolerance=1e-4)


def test_it_goes_through_the_fused_residual_norm():
    model, exported = built(fused_causal)
    graph = Graph.from_exported(exported)
    fused, pushed = run_passes(graph, [("fuse_operations", {"kernels": ["add_rms_norm"]}), ("last_token_pushdown", {})])
    assert fused.applied and pushed.applied
    sizes = [graph.shape(n.args[0])[-2] for n in graph.operations(torch.ops.fuseworks.add_rms_norm)]
    assert 1 in sizes
    assert lengths(graph, aten.linear).count("all") == 7 + 2
    assert_equal_results(model, graph, tokens(1, 2), tokens(5, 7), tolerance=1e-4)


def test_a_single_layer_keeps_nothing_but_keys_and_values_whole():
    model, exported = built(fused_causal, last, layers=1)
    _, graph = rewrite(exported, "last_token_pushdown")
    assert lengths(graph, aten.linear).count("all") == 2
    assert_equal_results(model, graph, tokens(1, 2), tokens(5, 7), again=False)


def test_the_rewritten_program_loads_in_a_new_process(tmp_path):
    model, exported = built(fused_causal)
    _, graph = rewrite(exported, "last_token_pushdown")
    assert_loads_elsewhere(model, graph, tokens(5, 7), tmp_path)


# ---- where it stops ------------------------------------------------------------------------------------------------


def test_it_refuses_when_other_positions_are_used_as_well():
    model, exported = built(by_hand, lambda self, x: (self.head(x)[:, -1], self.head(x).sum(1)), layers=1)
    graph = Graph.from_exported(exported)
    _, result = run_passes(graph, [("eliminate_common_subexpressions", {}), ("last_token_pushdown", {})])
    assert not result.applied
    assert reasons(result.refused) == ["linear_7 is used at other positions, too (sum_1)"]
    assert_equal_results(model, graph, tokens(5, 7), again=False)


def test_it_refuses_behind_an_operation_that_mixes_positions():
    model, exported = built(by_hand, lambda self, x: self.head(x).cumsum(1)[:, -1], layers=1)
    result, graph = rewrite(exported, "last_token_pushdown")
    assert not result.applied
    assert reasons(result.refused) == ["cumsum: aten.cumsum.default is not known to work position by position"]
    assert_equal_results(model, graph, tokens(5, 7), again=False)


def test_it_stops_at_a_reduction_over_the_positions_and_stays_right():
    model, exported = built(by_hand, lambda self, x: self.head(x - x.mean(1, keepdim=True))[:, -1], layers=1)
    result, graph = rewrite(exported, "last_token_pushdown")
    # the mean needs every position of the last layer: the head alone runs for one
    assert [s.node for s in result.applied] == ["linear_7"]
    assert_equal_results(model, graph, tokens(5, 7), again=False)


def test_it_says_nothing_of_columns_of_an_input_or_of_a_batch():
    class Columns(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(3, 2)

        def forward(self, x):
            return self.head(x), x[:, 0] + x[:, -1]

    result, _ = rewrite(export(Columns(), torch.randn(4, 3), dims=({0: BATCH},)), "last_token_pushdown")
    assert not result.applied and not result.refused


def test_positions_that_are_split_apart_are_each_used_and_stay():
    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(DIM, 3 * DIM)

        def forward(self, x):
            q, k, v = self.qkv(x).reshape(x.shape[0], x.shape[1], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            return F.scaled_dot_product_attention(q, k, v)

    model = Packed()
    result, graph = rewrite(export(model, torch.randn(3, 6, DIM), dims=({0: BATCH, 1: TIME},)), "last_token_pushdown")
    assert not result.applied
    assert_equal_results(model, graph, (torch.randn(2, 5, DIM),), again=False)


def test_queries_that_are_the_keys_themselves_are_cut_after_what_both_need():
    def take(self, x):
        y = self.norm(x)
        return self.head(F.scaled_dot_product_attention(y, y, y))[:, -1]

    model, exported = built(by_hand, take, layers=1)
    _, graph = rewrite(exported, "last_token_pushdown")
    assert lengths(graph, aten.scaled_dot_product_attention) == [1]
    assert lengths(graph, aten.linear).count(1) == 1
    assert_equal_results(model, graph, tokens(1, 2), tokens(5, 7), again=False)
