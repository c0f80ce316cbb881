"""The graph: in-place operations, values that stay true, constants, and the way back to an exported program."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.export import Dim

from optimizer.optimizing.graph import Graph, ShapeChanged
from tests.optimizer.optimizing.support import BATCH, TIME, export

aten = torch.ops.aten


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.dropout = nn.Linear(4, 6), nn.Dropout(0.5)

    def forward(self, x):
        y = self.dropout(torch.relu_(self.linear(x)))
        return {"view": y.view(-1), "sum": y.to(torch.float32).sum(-1)}


def small():
    return Graph.from_exported(export(Small(), torch.randn(3, 5, 4), dims=({0: BATCH, 1: TIME},)))


def test_names_dims_ranges_structure_and_source_lines_survive_the_round_trip():
    graph = small()
    (linear,) = graph.operations(aten.linear)
    assert graph.source(linear) == "test_graph.py:25"
    exported = graph.to_exported()
    assert list(exported.graph_signature.user_inputs) == ["x"]
    assert sorted((int(r.lower), int(r.upper)) for r in exported.range_constraints.values()) == [(1, 64), (2, 48)]
    assert set(exported.module()(torch.randn(2, 3, 4))) == {"view", "sum"}
    again = Graph.from_exported(exported)
    assert [again.source(n) for n in again.operations(aten.linear)] == ["test_graph.py:25"]


def test_derived_unbounded_and_nested_dynamic_dims_survive_the_round_trip():
    class Nested(nn.Module):
        def forward(self, parts, more, *, scale=2):
            return [parts["a"] * scale, more[0] + 1, more[1]]

    batch = Dim("batch")
    dims = {"parts": {"a": {0: batch}}, "more": [{0: 2 * batch}, {0: Dim("n", min=0, max=9)}], "scale": None}
    with torch.no_grad():
        inputs = ({"a": torch.randn(3, 4)}, [torch.randn(6), torch.randn(5, 3)])
        exported = torch.export.export(Nested(), inputs, {"scale": 3}, dynamic_shapes=dims)
    again = Graph.from_exported(exported).to_exported()
    assert {str(k): str(v) for k, v in again.range_constraints.items()} == {
        str(k): str(v) for k, v in exported.range_constraints.items()
    }
    a, b, c = again.module()({"a": torch.ones(7, 4)}, [torch.zeros(14), torch.ones(2, 3)], scale=3)
    assert torch.equal(a, torch.full((7, 4), 3.0)) and torch.equal(b, torch.ones(14)) and c.shape == (2, 3)


def test_an_in_place_operation_on_a_fresh_tensor_becomes_functional():
    graph = small()
    assert [n.target for n in graph.operations(aten.relu, aten.relu_)] == [aten.relu.default]
    assert not graph.tainted


class TakesResults(nn.Module):
    def __init__(self, of):
        super().__init__()
        self.of = of

    def forward(self, x):
        first, second = self.of(x)
        first /= 2.0
        return first, second, x * 3


def test_one_of_several_new_results_is_a_fresh_tensor():
    graph = Graph.from_exported(export(TakesResults(lambda x: torch.topk(x, 2)), torch.randn(3, 4)))
    assert not graph.tainted
    assert [n.target for n in graph.operations(aten.div)] == [aten.div.Tensor]


def test_one_of_several_views_is_none():
    graph = Graph.from_exported(export(TakesResults(lambda x: x.chunk(2)), torch.randn(4, 4)))
    assert not graph.operations(aten.chunk, aten.mul), "x is written through its view"


def test_a_tensor_whose_gradient_is_cut_off_is_not_written():
    class Copied(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("starts", torch.tensor([0, 3]))

        def forward(self, x):
            return x + self.starts.to(torch.int64, copy=True).detach_()

    assert not Graph.from_exported(export(Copied(), torch.ones(4, 2, dtype=torch.int64))).tainted


def test_what_is_written_in_place_otherwise_is_out_of_bounds_for_matchers():
    class Written(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(3))
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            self.calls.add_(1)
            y = self.linear(x)
            y[:, 0].mul_(2)
            return y + self.calls

    model = Written()
    graph = Graph.from_exported(export(model, torch.randn(4, 3), dims=({0: BATCH},)))
    assert graph.operations(aten.linear) == []
    buffer = next(n for n in graph.nodes if n.target == "calls")
    assert graph.constant_value(buffer) is None
    x, program = torch.randn(2, 3), graph.to_exported().module()
    twin = copy.deepcopy(model)  # the program shares the module's buffer
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(program(x), twin(x))


def test_a_view_that_needed_the_old_strides_becomes_a_reshape():
    graph = small()
    (relu,) = graph.operations(aten.relu)
    value = relu.args[0]
    for op, options in (
        (aten.transpose.int, (1, 2)),
        (aten.contiguous.default, ()),
        (aten.transpose.int, (1, 2)),
        (aten.relu.default, ()),
    ):
        value = graph.call(op, value, *options, before=relu)
    graph.replace(relu, value)
    assert [n.target for n in graph.operations(aten.view, aten.reshape)] == [aten.reshape.default]
    graph.lint()
    x = torch.randn(2, 3, 4)
    with torch.no_grad():
        torch.testing.assert_close(graph.to_exported().module()(x)["view"], Small().eval()(x)["view"])


def test_replacing_a_value_by_one_of_another_shape_or_dtype_is_an_error():
    graph = small()
    (relu,) = graph.operations(aten.relu)
    for other in (
        graph.call(aten.unsqueeze.default, relu, 0, before=relu.next),
        graph.call(aten.to.dtype, relu, torch.float64, before=relu.next),
    ):
        with pytest.raises(ShapeChanged):
            graph.replace(relu, other)


def test_a_size_as_an_argument_is_a_number_or_comes_from_an_input():
    graph = small()
    (relu,) = graph.operations(aten.relu)
    assert graph.size(relu, 2, before=relu) == 6
    size = graph.size(relu, 1, before=relu)
    assert size.args == (graph.inputs[0], 1)


def test_constants_are_read_through_views_and_unused_ones_are_swept():
    graph = small()
    (linear,) = graph.operations(aten.linear)
    turned = graph.call(aten.t.default, linear.args[1], before=linear)
    assert torch.equal(graph.constant_value(turned), graph.constant_value(linear.args[1]).t())
    assert graph.constant_value(linear) is None
    new = graph.constant(torch.zeros(6, 4), "zero weight")
    graph.replace(linear, graph.call(aten.linear.default, linear.args[0], new, before=linear, like=linear))
    graph.sweep()
    graph.lint()
    assert set(graph.to_exported().state_dict) == {"fuseworks_zero_weight"}


def test_hoist_moves_what_a_node_needs_and_refuses_a_circle():
    graph = small()
    (linear,), (relu,) = graph.operations(aten.linear), graph.operations(aten.relu)
    end = relu.next
    late = graph.call(aten.neg.default, graph.inputs[0], before=end)
    later = graph.call(aten.exp.default, late, before=end)
    assert graph.hoist(later, linear) and late < later < linear
    graph.lint()
    assert not graph.hoist(next(iter(relu.users)), linear)


def test_an_unused_attention_is_swept_although_torch_counts_it_as_random():
    class Attention(nn.Module):
        def forward(self, x):
            return nn.functional.scaled_dot_product_attention(x, x, x)

    graph = Graph.from_exported(export(Attention(), torch.randn(2, 1, 3, 4)))
    (attention,) = graph.operations(aten.scaled_dot_product_attention)
    graph.replace(attention, graph.call(aten.neg.default, graph.inputs[0], before=attention))
    graph.sweep()
    assert graph.operations(aten.scaled_dot_product_attention) == []
