"""Gathers by constant indices over several dimensions become slices or one selection, bit by bit the same."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.optimizer.optimizing.support import BATCH, assert_loads_elsewhere, count, export, reasons, rewrite
from tests.optimizer.optimizing.truth import Calls, assert_same

aten = torch.ops.aten
F = 6  # vectors of each sample
LOWER = torch.tril_indices(F, F, offset=-1)
UPPER = torch.triu_indices(F, F, offset=1)


class Interaction(nn.Module):
    """DLRM's: all products of a sample's vectors, one of each pair, beside a dense part."""

    def __init__(self, pairs=LOWER, join=True, dim=1):
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("row", pairs[0])
        self.register_buffer("column", pairs[1])
        self.top, self.join, self.dim = nn.Linear(3 + pairs.shape[1], 2), join, dim

    def forward(self, x):
        products = torch.bmm(x, x.transpose(1, 2))
        pairs = products[:, self.row, self.column]
        return self.top(torch.cat([x[:, 0, :3], pairs], self.dim)) if self.join else pairs


def vectors(batch):
    return (torch.randn(batch, F, 4, generator=torch.Generator().manual_seed(batch)),)


def built(model):
    return model, export(model, *vectors(3), dims=({0: BATCH},))


def same_bits(model, graph, *inputs):
    with torch.no_grad():
        assert all(torch.equal(model(*one), graph.module(*one)) for one in inputs)


@pytest.mark.parametrize("dim", [1, -1])
@pytest.mark.parametrize(("pairs", "first"), [(LOWER, (6, 7)), (UPPER, (1, 6))], ids=["lower", "upper"])
def test_a_triangle_is_read_as_slices_right_into_the_concatenation(pairs, first, dim):
    model, exported = built(Interaction(pairs, dim=dim))
    result, graph = rewrite(exported, "flatten_gathers", form="slices", min_run=3)
    assert reasons(result.applied) == ["15 of 36 positions joined from 5 slices"]
    (joined,) = graph.operations(aten.cat)
    assert len(joined.args[0]) == 1 + 5 and count(graph, aten.index) == 0
    assert joined.args[0][1].args[2:] == first
    assert_same(model, graph, vectors(1), vectors(7))
    same_bits(model, graph, vectors(7))


def test_a_loaded_program_gives_the_same(tmp_path):
    model, exported = built(Interaction())
    result, graph = rewrite(exported, "flatten_gathers", form="slices", min_run=3)
    assert result.applied[0].source.startswith("test_flatten_gathers.py:")
    assert_loads_elsewhere(model, graph, vectors(5), tmp_path)


def test_short_runs_and_the_form_select_give_one_selection():
    model, exported = built(Interaction())
    for options in ({}, {"form": "select", "min_run": 1}, {"form": "slices"}):
        result, graph = rewrite(exported, "flatten_gathers", **options)
        assert reasons(result.applied) == ["15 of 36 positions selected along one dimension"]
        (selected,) = graph.operations(aten.index_select)
        positions = graph.constant_value(selected.args[2])
        assert torch.equal(positions, LOWER[0] * F + LOWER[1])
        assert_same(model, graph, vectors(1), vectors(7))


def test_what_is_handed_back_is_dense_and_its_own():
    model, exported = built(Interaction(torch.tensor([[1, 1, 1], [2, 3, 4]]), join=False))
    result, graph = rewrite(exported, "flatten_gathers", form="slices", min_run=3)
    assert reasons(result.applied) == ["3 of 36 positions joined from 1 slices"]
    assert_same(model, graph, vectors(1), vectors(7))
    (got,) = (graph.module(*vectors(7)),)
    assert got.is_contiguous() and got.untyped_storage().nbytes() == 7 * 3 * 4, "no view of the products"


def test_a_gather_with_another_user_is_joined_by_itself():
    class Twice(Interaction):
        def forward(self, x):
            pairs = torch.bmm(x, x.transpose(1, 2))[:, self.row, self.column]
            return torch.cat([x[:, 0], pairs], 1), pairs.sum(1)

    model, exported = built(Twice())
    result, graph = rewrite(exported, "flatten_gathers", form="slices", min_run=3)
    assert len(result.applied) == 1 and count(graph, aten.cat) == 2
    assert_same(model, graph, vectors(1), vectors(7))


def test_pairs_in_any_order_with_negatives_and_repetitions_stay_in_that_order():
    pairs = torch.tensor([[5, -1, 0, 0, 5], [0, -2, 3, 4, 0]])
    model, exported = built(Interaction(pairs))
    result, graph = rewrite(exported, "flatten_gathers")
    (selected,) = graph.operations(aten.index_select)
    assert graph.constant_value(selected.args[2]).tolist() == [30, 34, 3, 4, 30]
    assert_same(model, graph, vectors(1), vectors(7))
    result, graph = rewrite(exported, "flatten_gathers", form="slices", min_run=1)
    assert reasons(result.applied) == ["5 of 36 positions joined from 4 slices"]
    assert_same(model, graph, vectors(7))


def test_trailing_and_leading_dimensions_and_a_broadcast_index_are_kept():
    def body(self, x):
        return x[:, self.row, self.column].sin(), x.transpose(0, 2)[self.column, self.one]

    model = Calls(body, row=torch.tensor([0, 1]), column=torch.tensor([2, 0]), one=torch.tensor([1]))
    inputs = (torch.randn(5, 3, 4, 2),)
    exported = export(model, *inputs, dims=(({0: BATCH},),))
    result, graph = rewrite(exported, "flatten_gathers")
    assert len(result.applied) == 2 and count(graph, aten.index_select) == 2
    assert_same(model, graph, inputs, (torch.randn(1, 3, 4, 2),))


# ---- near misses ---------------------------------------------------------------------------------------------------


def refused(body, *inputs, dims=None, **tensors):
    exported = export(Calls(body, **tensors), *inputs, dims=dims)
    result, graph = rewrite(exported, "flatten_gathers")
    assert not result.applied and count(graph, aten.index) == 1
    return reasons(result.refused)


def test_each_near_miss_is_refused_with_its_reason():
    x = torch.randn(2, F, F, 3)
    one, two, none = torch.tensor([0, 1]), torch.tensor([[0, 1]]), torch.zeros(0, dtype=torch.int64)
    apart = refused(lambda self, x: x[self.a, :, self.a], x, a=one)
    assert apart == ["the indexed dimensions do not stand side by side"]
    assert refused(lambda self, x: x[:, self.a, self.b], x, a=one, b=two) == ["an index has more than one dimension"]
    assert refused(lambda self, x: x[:, self.a, self.a], x, a=none) == ["there is nothing to gather"]


def test_a_dynamic_dimension_is_refused():
    x = torch.randn(3, F, 3)
    got = refused(lambda self, x: x[self.a, self.a], x, dims=(({0: BATCH},),), a=torch.tensor([0, 0]))
    assert got == ["an indexed dimension is dynamic"]


def test_an_index_outside_stays_an_error():
    def body(self, x):
        return x[:, self.a, self.a]

    model = Calls(body, a=torch.tensor([0, F - 1]))
    exported = export(model, torch.randn(2, F, F))
    for name in exported.constants | exported.state_dict:
        exported.state_dict[name] = torch.tensor([0, F])
    result, _ = rewrite(exported, "flatten_gathers")
    assert not result.applied and reasons(result.refused) == [f"an index lies outside of its dimension of {F}"]


NO_MATTER = {
    "computed indices": lambda self, x: x[:, (x[0, :, 0] > 0).long(), self.a],
    "one index": lambda self, x: x[:, self.a],
}


@pytest.mark.parametrize("case", NO_MATTER)
def test_what_a_selection_cannot_say_better_is_no_matter(case):
    x = torch.randn(2, F, F)
    assert refused(NO_MATTER[case], x, a=torch.arange(F)) == []
