"""Linear layers on one input become one; layers on different inputs, or with computed weights, stay."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.optimizer.optimizing.support import (
    BATCH,
    TIME,
    assert_equal_results,
    assert_loads_elsewhere,
    count,
    export,
    reasons,
    rewrite,
)

aten = torch.ops.aten
DIM = 8


class Projections(nn.Module):
    """Biases on some, a matmul with a parameter, reshapes that need contiguous memory."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v = nn.Linear(DIM, 8), nn.Linear(DIM, 4, bias=False), nn.Linear(DIM, 4)
        self.w = nn.Parameter(torch.randn(DIM, 3))

    def forward(self, x):
        batch, time, _ = x.shape
        q = self.q(x).view(batch, time, 2, 4).transpose(1, 2)
        return q, self.k(x).flatten(1), self.v(x).view(-1), x @ self.w, (2 * x) @ self.w


def sequence(batch, time):
    return (torch.randn(batch, time, DIM, generator=torch.Generator().manual_seed(time)),)


def built(model):
    return model, export(model, *sequence(3, 6), dims=({0: BATCH, 1: TIME},))


def test_four_projections_become_one_and_the_one_on_another_input_stays(tmp_path):
    model, exported = built(Projections())
    result, graph = rewrite(exported, "merge_parallel_linears")
    rest = "of 4 of one linear layer with 19 output features"
    assert reasons(result.applied) == [f"part {i} {rest}" for i in (1, 2, 3, 4)]
    assert result.applied[0].source.startswith("test_merge_parallel_linears.py:")
    assert count(graph, aten.linear) == 1 and count(graph, aten.matmul) == 1
    assert_equal_results(model, graph, sequence(1, 2), sequence(7, 5))
    assert_loads_elsewhere(model, graph, sequence(7, 5), tmp_path)


def test_a_missing_bias_is_filled_with_zeros_only_when_another_has_one():
    _, exported = built(Projections())
    _, graph = rewrite(exported, "merge_parallel_linears")
    (merged,) = graph.operations(aten.linear)
    assert torch.equal(graph.constant_value(merged.args[2])[8:12], torch.zeros(4))

    class NoBias(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(DIM, 2, bias=False), nn.Linear(DIM, 2, bias=False)

        def forward(self, x):
            return F.silu(self.a(x)) * self.b(x)

    model, exported = built(NoBias())
    _, graph = rewrite(exported, "merge_parallel_linears")
    (merged,) = graph.operations(aten.linear)
    assert graph.arguments(merged)["bias"] is None
    assert_equal_results(model, graph, sequence(1, 2), sequence(7, 5), again=False)


def test_merged_weights_replace_the_old_ones_in_the_program():
    _, exported = built(Projections())
    _, graph = rewrite(exported, "merge_parallel_linears")
    names = set(graph.to_exported().state_dict)
    assert names == {"w", "fuseworks_linear_merged_weight", "fuseworks_linear_merged_bias"}  # w: its other use


def test_limits_on_width_and_group_split_the_merge_and_say_why():
    _, exported = built(Projections())
    result, _ = rewrite(exported, "merge_parallel_linears", max_width=12)
    assert [r.split(" of one")[0] for r in reasons(result.applied)] == ["part 1 of 2", "part 2 of 2"] * 2
    result, _ = rewrite(exported, "merge_parallel_linears", max_group=2)
    assert len(result.applied) == 4
    result, _ = rewrite(exported, "merge_parallel_linears", max_member_width=5)
    assert reasons(result.refused) == ["8 output features exceed max_member_width 5"] and len(result.applied) == 3
    result, _ = rewrite(exported, "merge_parallel_linears", min_width=100)
    assert reasons(result.refused) == ["merged width 19 is below min_width 100"] and not result.applied


def test_it_refuses_a_computed_weight_beside_constant_ones_with_its_line():
    class Computed(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(DIM, 2), nn.Linear(DIM, 3)

        def forward(self, x):
            return self.a(x), F.linear(x, self.b.weight * x.mean(), self.b.bias)

    model, exported = built(Computed())
    result, graph = rewrite(exported, "merge_parallel_linears")
    assert not result.applied and reasons(result.refused) == ["the weight is not constant"]
    assert result.refused[0].source.startswith("test_merge_parallel_linears.py:")
    assert_equal_results(model, graph, sequence(7, 5), again=False)


def test_layers_on_different_inputs_and_a_layer_alone_are_no_matter():
    class Chain(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(DIM, DIM), nn.Linear(DIM, 3)

        def forward(self, x):
            return self.b(torch.relu(self.a(x)))

    _, exported = built(Chain())
    result, _ = rewrite(exported, "merge_parallel_linears")
    assert not result.applied and not result.refused


def test_an_input_that_is_written_in_place_between_the_layers_is_left_alone():
    class Written(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(DIM, 2), nn.Linear(DIM, 3)

        def forward(self, x):
            x = x * 2
            first = self.a(x)
            x[:, 0].mul_(3)
            return first, self.b(x)

    model, exported = built(Written())
    result, graph = rewrite(exported, "merge_parallel_linears")
    assert not result.applied
    assert_equal_results(model, graph, sequence(7, 5), again=False)


class HandsBack(nn.Module):
    """Two projections: `first` goes out as it is, `second` as a view, `third` only into a sum."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.c = (nn.Linear(DIM, 4) for _ in range(3))

    def forward(self, x):
        return self.a(x), self.b(x).transpose(0, 1), self.c(x).sin()


def test_outputs_that_are_handed_back_stay_dense_and_apart():
    model, exported = built(HandsBack())
    result, graph = rewrite(exported, "merge_parallel_linears")
    assert len(result.applied) == 3
    assert count(graph, aten.clone) == 2, "what is used up inside is not copied"
    assert_equal_results(model, graph, sequence(3, 6))
    with torch.no_grad():
        expected, got = model(*sequence(3, 6)), graph.module(*sequence(3, 6))
    assert [t.stride() for t in got] == [t.stride() for t in expected]
    assert len({t.untyped_storage().data_ptr() for t in got}) == 3
    before = got[1].clone()
    got[0].zero_()
    assert torch.equal(got[1], before)
