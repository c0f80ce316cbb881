"""Batched products with constant weights become a linear layer for each lane, whole chains at once."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.optimizer.optimizing.support import (
    BATCH,
    assert_equal_results,
    assert_loads_elsewhere,
    count,
    export,
    reasons,
    rewrite,
)
from tests.optimizer.optimizing.truth import Calls, assert_same

aten = torch.ops.aten
T, D, H = 3, 4, 5


class PerToken(nn.Module):
    """A two-layer network of its own for each of T tokens, as `body` writes it."""

    def __init__(self, body):
        super().__init__()
        torch.manual_seed(0)
        self.w1, self.b1 = nn.Parameter(torch.randn(T, D, H)), nn.Parameter(torch.randn(T, H))
        self.w2, self.b2 = nn.Parameter(torch.randn(T, H, D)), nn.Parameter(torch.randn(T, D))
        self.body = body

    def forward(self, x):
        return self.body(self, x)


def tokens(batch):
    return (torch.randn(batch, T, D, generator=torch.Generator().manual_seed(batch)),)


def built(body):
    model = PerToken(body)
    return model, export(model, *tokens(2), dims=({0: BATCH},))


def by_einsum(self, x):
    hidden = F.gelu(torch.einsum("btd,tdh->bth", x, self.w1) + self.b1)
    return torch.einsum("bth,thd->btd", hidden, self.w2) + self.b2


def commuted(self, x):
    hidden = F.gelu(self.b1 + torch.einsum("tdh,btd->bth", self.w1, x))
    return self.b2 + torch.einsum("thd, bth -> btd", self.w2, hidden)


def by_bmm(self, x):
    hidden = F.gelu(torch.bmm(x.transpose(0, 1), self.w1) + self.b1.unsqueeze(1))
    return (torch.matmul(hidden, self.w2) + self.b2[:, None]).transpose(0, 1)


def rows_last(self, x):
    hidden = F.gelu(torch.einsum("btd,tdh->thb", x, self.w1) + self.b1.unsqueeze(-1))
    return torch.einsum("thb,thd->bdt", hidden, self.w2) + self.b2.t()


SPELLINGS = {"einsum": by_einsum, "commuted": commuted, "bmm": by_bmm, "rows last": rows_last}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_chain_stays_apart_from_its_first_product_to_its_end(spelling):
    model, exported = built(SPELLINGS[spelling])
    result, graph = rewrite(exported, "split_batched_linears")
    assert reasons(result.applied) == ["3 linear layers of 4 to 5 features", "3 linear layers of 5 to 4 features"]
    assert count(graph, aten.linear) == 2 * T and count(graph, aten.gelu) == T and count(graph, aten.stack) == 1
    assert count(graph, aten.einsum, aten.bmm, aten.matmul, aten.add) == 0, "biases are the layers' own"
    assert_equal_results(model, graph, tokens(1), tokens(7), again=spelling == "einsum")
    with torch.no_grad():
        assert graph.module(*tokens(7)).shape == model(*tokens(7)).shape


def test_each_lane_reads_its_own_weights_and_bias():
    model, exported = built(by_einsum)
    _, graph = rewrite(exported, "split_batched_linears")
    second = graph.operations(aten.linear)[1]
    lane, weight, bias = second.args
    assert lane.target is aten.select.int and lane.args[1:] == (1, 1)
    assert torch.equal(graph.constant_value(weight), model.w1[1].t())
    assert torch.equal(graph.constant_value(bias), model.b1[1])


def test_a_loaded_program_gives_the_same(tmp_path):
    model, exported = built(by_einsum)
    result, graph = rewrite(exported, "split_batched_linears")
    assert result.applied[0].source.startswith("test_split_batched_linears.py:")
    assert_loads_elsewhere(model, graph, tokens(5), tmp_path)


def test_a_bias_for_all_tokens_and_one_number_for_all_features_are_spread():
    def body(self, x):
        return torch.einsum("btd,tdh->bth", x, self.w1) + self.b1[0], torch.bmm(x.transpose(0, 1), self.w1) + self.b1[
            :, :1, None
        ]

    model, exported = built(body)
    _, graph = rewrite(exported, "split_batched_linears")
    assert count(graph, aten.linear) == 2 * T and count(graph, aten.add) == 0
    assert_same(model, graph, tokens(1), tokens(7))


BETWEEN = {
    "another user": lambda self, x: (lambda h: (torch.einsum("bth,thd->btd", h, self.w2), h.sum()))(
        torch.einsum("btd,tdh->bth", x, self.w1).relu()
    ),
    "a product with another tensor": lambda self, x: torch.einsum(
        "bth,thd->btd", torch.einsum("btd,tdh->bth", x, self.w1) * x[..., :1], self.w2
    ),
    "a norm over the features": lambda self, x: torch.einsum(
        "bth,thd->btd", F.layer_norm(torch.einsum("btd,tdh->bth", x, self.w1), (H,)), self.w2
    ),
    "lanes in another place": lambda self, x: torch.einsum(
        "bth,hdt->bhd", torch.einsum("btd,tdh->bth", x, self.w1), self.w2.permute(1, 2, 0)
    ),
}


@pytest.mark.parametrize("case", BETWEEN)
def test_what_stands_between_two_products_ends_the_chain(case):
    model, exported = built(BETWEEN[case])
    result, graph = rewrite(exported, "split_batched_linears")
    assert len(result.applied) == 2 and count(graph, aten.stack) == 2
    assert_same(model, graph, tokens(1), tokens(7))


def test_a_constant_for_each_row_is_added_to_the_stack():
    def body(self, x):
        return torch.einsum("btd,tdh->bth", x, self.w) + self.b

    model = Calls(body, w=torch.randn(T, D, H), b=torch.randn(2, T, H))
    _, graph = rewrite(export(model, *tokens(2)), "split_batched_linears")
    assert count(graph, aten.linear) == T and count(graph, aten.add) == 1
    assert_same(model, graph, tokens(2))


# ---- near misses ---------------------------------------------------------------------------------------------------


def test_limits_on_the_lanes_are_told():
    _, exported = built(by_einsum)
    result, _ = rewrite(exported, "split_batched_linears", max_lanes=2)
    assert not result.applied and reasons(result.refused) == ["3 lanes, not 2 to 2"] * 2
    result, _ = rewrite(exported, "split_batched_linears", min_lanes=4)
    assert not result.applied and reasons(result.refused) == ["3 lanes, not 4 to 64"] * 2


def test_other_products_with_constants_are_refused_or_no_matter():
    def refusals(equation, x, w):
        def body(self, y):
            return torch.einsum(equation, y, self.w)

        result, graph = rewrite(export(Calls(body, w=w), x), "split_batched_linears")
        assert not result.applied and count(graph, aten.einsum) == 1
        return reasons(result.refused)

    x, w = torch.randn(2, T, D), torch.randn(T, D, H)
    assert refusals("btd,tdh->bh", x, w) == [], "a sum over the lanes"
    assert refusals("btd,dh->bth", x, w[0]) == [], "one weight for all"
    assert refusals("bd,tdh->bth", x[:, 0], w) == [], "one input for all"
    assert refusals("b...d,dh->b...h", x, w[0]) == [], "an ellipsis"
    reason = "it is no linear layer of one row of inputs for each lane"
    assert refusals("abtd,tdh->abth", x[None], w) == [reason]
    assert refusals("btd,tdh->th", x, w) == [reason]


def test_computed_weights_and_constants_alone_are_no_matter():
    def body(self, x):
        return torch.bmm(x, x.transpose(1, 2)), torch.bmm(self.w1, self.w2)

    _, exported = built(body)
    result, _ = rewrite(exported, "split_batched_linears")
    assert not result.applied and not result.refused
