"""Weighted sums over one stack become one batched product, in whatever order the stack lies; near misses stay."""

from __future__ import annotations

import pytest
import torch
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
EXPERTS, WIDTH, TASKS = 5, 3, 2


class Gated(nn.Module):
    """A stack of experts and a softmax gate for each task, as `body(gates, experts)` puts them together."""

    def __init__(self, body):
        super().__init__()
        torch.manual_seed(0)
        self.experts = nn.ModuleList(nn.Linear(7, WIDTH) for _ in range(EXPERTS))
        self.gates = nn.ModuleList(nn.Linear(7, EXPERTS) for _ in range(TASKS))
        self.body = body

    def forward(self, x):
        gates = [torch.softmax(gate(x), -1) for gate in self.gates]
        return self.body(gates, [expert(x) for expert in self.experts])


def batch(rows):
    return (torch.randn(rows, 7, generator=torch.Generator().manual_seed(rows)),)


def built(body):
    model = Gated(body)
    return model, export(model, *batch(4), dims=({0: BATCH},))


def over(dim, weights):
    """`weights(gate)` times the stack along `dim`, summed over that dimension."""

    def body(gates, experts):
        stacked = torch.stack(experts, dim)
        return [(weights(gate) * stacked).sum(dim).sin() for gate in gates]

    return body


def flipped(gates, experts):
    stacked = torch.stack(experts, 1)
    return [(stacked * gate[:, :, None]).sum(1).sin() for gate in gates]


def expanded(gates, experts):
    stacked = torch.stack(experts, 1)
    return [(gate.unsqueeze(-1).expand(-1, -1, WIDTH) * stacked).sum(1).sin() for gate in gates]


def kept(gates, experts):
    stacked = torch.stack(experts, 1)
    return [(gate.unsqueeze(-1) * stacked).sum(1, keepdim=True).sin() for gate in gates]


def as_products(gates, experts):
    stacked = torch.stack(experts, 1)
    return [torch.bmm(gate.unsqueeze(1), stacked).squeeze(1).sin() for gate in gates]


def as_einsum(gates, experts):
    stacked = torch.stack(experts, 1)
    return torch.einsum("bn,bnd->bd", gates[0], stacked).sin(), torch.einsum("bnd, bn -> db", stacked, gates[1]).sin()


def as_einsum_kept(gates, experts):
    stacked = torch.stack(experts, 2)
    return [torch.einsum("tbn,bdn->bdt", gate.unsqueeze(0), stacked).sin() for gate in gates]


def mixed(gates, experts):
    stacked = torch.stack(experts, 1)
    return (gates[0].unsqueeze(-1) * stacked).sum(1).sin(), (gates[1].unsqueeze(1) @ stacked).squeeze(1).sin()


SPELLINGS = {
    "batch, experts, width": over(1, lambda gate: gate.unsqueeze(-1)),
    "experts, batch, width": over(0, lambda gate: gate.t().unsqueeze(-1)),
    "batch, width, experts": over(-1, lambda gate: gate.unsqueeze(1)),
    "commuted": flipped,
    "expanded": expanded,
    "kept dimension": kept,
    "products": as_products,
    "einsum": as_einsum,
    "einsum with a row's dimension": as_einsum_kept,
    "a sum and a product": mixed,
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_gates_over_one_stack_become_one_product(spelling):
    model, exported = built(SPELLINGS[spelling])
    result, graph = rewrite(exported, "batch_weighted_sums")
    assert [r.split(" over")[0] for r in reasons(result.applied)] == [
        "row 1 of 2 of one product",
        "row 2 of 2 of one product",
    ]
    assert count(graph, aten.bmm) == 1 and count(graph, aten.sum, aten.mul, aten.matmul, aten.einsum) == 0
    (product,) = graph.operations(aten.bmm)
    assert [graph.shape(n)[1:] for n in product.args] == [(TASKS, EXPERTS), (EXPERTS, WIDTH)]
    assert_equal_results(model, graph, batch(1), batch(7), again=spelling in ("batch, experts, width", "products"))


def test_a_loaded_program_gives_the_same(tmp_path):
    model, exported = built(SPELLINGS["batch, experts, width"])
    result, graph = rewrite(exported, "batch_weighted_sums")
    assert result.applied[0].source.startswith("test_batch_weighted_sums.py:")
    assert_loads_elsewhere(model, graph, batch(7), tmp_path)


def test_each_stack_has_a_product_of_its_own():
    def body(gates, experts):
        first, second = torch.stack(experts, 1), torch.stack(experts[::-1], 1)
        return [(gate.unsqueeze(-1) * stack).sum(1).sin() for stack in (first, second) for gate in gates]

    model, exported = built(body)
    result, graph = rewrite(exported, "batch_weighted_sums")
    assert len(result.applied) == 4 and count(graph, aten.bmm) == 2
    assert_equal_results(model, graph, batch(7), again=False)


def test_features_before_the_batch_come_out_in_that_order():
    def body(self, weights, vectors):
        return [(weights[i] * vectors).sum(0).sin() for i in range(2)]

    model = Calls(body)

    def inputs(b):
        return torch.randn(2, 6, 1, b), torch.randn(6, 4, b)

    exported = export(model, *inputs(5), dims=(({3: BATCH}, {2: BATCH}),))
    result, graph = rewrite(exported, "batch_weighted_sums")
    assert len(result.applied) == 2 and count(graph, aten.bmm) == 1
    assert_same(model, graph, inputs(1), inputs(7))


def test_outputs_that_are_handed_back_stay_dense_and_apart():
    def body(gates, experts):
        stacked = torch.stack(experts, 1)
        return [(gate.unsqueeze(-1) * stacked).sum(1) for gate in gates]

    model, exported = built(body)
    _, graph = rewrite(exported, "batch_weighted_sums")
    with torch.no_grad():
        expected, got = model(*batch(4)), graph.module(*batch(4))
    assert [t.stride() for t in got] == [t.stride() for t in expected]
    assert len({t.untyped_storage().data_ptr() for t in got}) == 2
    before = got[1].clone()
    got[0].zero_()
    assert torch.equal(got[1], before)
    torch.testing.assert_close(got[1], expected[1])


# ---- near misses ---------------------------------------------------------------------------------------------------


def test_one_sum_alone_is_refused_unless_asked_for():
    def body(gates, experts):
        return (gates[0].unsqueeze(-1) * torch.stack(experts, 1)).sum(1).sin()

    model, exported = built(body)
    result, graph = rewrite(exported, "batch_weighted_sums")
    assert not result.applied and reasons(result.refused) == ["only 1 weighted sums read stack, below min_sums 2"]
    result, graph = rewrite(exported, "batch_weighted_sums", min_sums=1)
    assert len(result.applied) == 1 and count(graph, aten.bmm) == 1
    assert_equal_results(model, graph, batch(1), batch(7), again=False)


def test_a_product_alone_is_no_matter():
    def several_rows(gates, experts):
        both, stacked = torch.stack(gates, 1), torch.stack(experts, 1)
        return torch.bmm(both, stacked), torch.einsum("btn,bnd->btd", both * 2, stacked)

    def one_row(gates, experts):
        return torch.bmm(gates[0].unsqueeze(1), torch.stack(experts, 1))

    for body in (several_rows, one_row):
        _, exported = built(body)
        result, _ = rewrite(exported, "batch_weighted_sums")
        assert not result.applied and not result.refused


def test_products_with_other_users_stay():
    def body(gates, experts):
        stacked = torch.stack(experts, 1)
        products = [gate.unsqueeze(-1) * stacked for gate in gates]
        return [p.sum(1) for p in products], products[0].amax()

    model, exported = built(body)
    result, graph = rewrite(exported, "batch_weighted_sums")
    assert not result.applied
    assert reasons(result.refused)[0] == "the products have other users than the sum (2)"
    assert_equal_results(model, graph, batch(7), again=False)


def test_weights_that_come_out_of_an_earlier_sum_stay_with_it():
    def body(gates, experts):
        stacked = torch.stack(experts, 1)
        first = (gates[0].unsqueeze(-1) * stacked).sum(1)
        second = torch.softmax(gates[1] * first.mean(1, keepdim=True), -1)
        return (second.unsqueeze(-1) * stacked).sum(1)

    _, exported = built(body)
    result, _ = rewrite(exported, "batch_weighted_sums")
    assert "its weights are computed from an earlier weighted sum" in reasons(result.refused) and not result.applied


NO_MATTER = {
    "a dot product": lambda gates, experts: [(e * experts[0]).sum(1) for e in experts[1:]],
    "weights of each column": lambda gates, experts: [
        (torch.stack(experts, 1) * e.unsqueeze(1)).sum(1) for e in experts[:2]
    ],
    "a mean": lambda gates, experts: [(g.unsqueeze(-1) * torch.stack(experts, 1)).mean(1) for g in gates],
    "all of it summed": lambda gates, experts: [(g.unsqueeze(-1) * torch.stack(experts, 1)).sum((1, 2)) for g in gates],
    "summed over the width": lambda gates, experts: [(g.unsqueeze(-1) * torch.stack(experts, 1)).sum(2) for g in gates],
}


@pytest.mark.parametrize("case", NO_MATTER)
def test_what_is_no_weighted_sum_of_vectors_stays(case):
    _, exported = built(NO_MATTER[case])
    result, _ = rewrite(exported, "batch_weighted_sums")
    assert not result.applied and not result.refused


def test_another_rank_and_another_dtype_are_refused_with_the_reason():
    def four(self, weights, vectors):
        return [(weights[i].unsqueeze(-1) * vectors).sum(2) for i in range(2)]

    exported = export(Calls(four), torch.randn(2, 3, 4, 5), torch.randn(3, 4, 5, 2))
    result, _ = rewrite(exported, "batch_weighted_sums")
    assert not result.applied and reasons(result.refused) == ["the products have 4 dimensions, not 3"] * 2

    def double(self, weights, vectors):
        return [(weights[i].unsqueeze(-1) * vectors).sum(1) for i in range(2)]

    exported = export(Calls(double), torch.randn(2, 3, 4).double(), torch.randn(3, 4, 5))
    result, _ = rewrite(exported, "batch_weighted_sums")
    assert not result.applied and reasons(result.refused) == ["weights, vectors and sum are not of one dtype"] * 2


def test_whole_numbers_are_no_matter():
    def body(self, weights, vectors):
        return [(weights[i].unsqueeze(-1) * vectors).sum(1) for i in range(2)]

    exported = export(Calls(body), torch.ones(2, 3, 4, dtype=torch.int64), torch.ones(3, 4, 5, dtype=torch.int64))
    result, _ = rewrite(exported, "batch_weighted_sums")
    assert not result.applied and not result.refused
