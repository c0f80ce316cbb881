"""What depends on constants only is computed once, within limits; random numbers and handed-back values are not."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.optimizer.optimizing.support import BATCH, assert_equal_results, count, export, reasons, rewrite
from tests.optimizer.optimizing.truth import Calls, assert_same

aten = torch.ops.aten


def inputs(batch: int) -> tuple[torch.Tensor]:
    return (torch.randn(batch, 4, 6, generator=torch.Generator().manual_seed(batch)),)


def hoisted(function: Any, options: dict[str, Any] | None = None, **buffers: torch.Tensor) -> tuple[Any, Any, Calls]:
    model = Calls(function, **buffers)
    exported = export(model, *inputs(3), dims={"args": ({0: BATCH},)})
    result, graph = rewrite(exported, "hoist_constants", **(options or {}))
    return result, graph, model


WEIGHT = torch.linspace(-1, 1, 36).reshape(6, 6)


def rope(_: Any, x: torch.Tensor) -> torch.Tensor:
    frequencies = 1.0 / (10_000 ** (torch.arange(0, 6, 2).float() / 6))
    angles = torch.outer(torch.arange(x.shape[1]).float(), frequencies)
    angles = torch.cat((angles, angles), -1)
    return x * angles.cos() + x.flip(-1) * angles.sin()


ONE_CALL = {
    "positions": (lambda _, x: x + torch.arange(6).float() / 6, 1),
    "a mask": (lambda _, x: x.masked_fill(torch.ones(4, 6).tril() == 0, 0.0), 1),
    "a transposed weight": (lambda m, x: torch.matmul(x, m.weight.t()), 1),
    "a scaled weight": (lambda m, x: torch.nn.functional.linear(x, m.weight * 2 + 1), 1),
    "rotary angles": (rope, 4),
    "a looked-up position": (lambda m, x: x + torch.nn.functional.embedding(torch.arange(4), m.weight), 1),
    "through an expansion": (lambda m, x: x + m.weight[:1].expand(4, 6).sin(), 1),
    "one of several outputs": (lambda m, x: x + m.weight.max(-1).values, 1),
}


@pytest.mark.parametrize("case", ONE_CALL)
def test_it_is_computed_once(case: str) -> None:
    function, calls = ONE_CALL[case]
    result, graph, model = hoisted(function, weight=WEIGHT)
    assert result.applied
    assert "computed once" in result.applied[0].reason
    assert len(graph.operations()) == calls, [str(n.target) for n in graph.operations()]
    assert_same(model, graph, inputs(1), inputs(5), tolerance=1e-6)


def test_the_hoisted_constant_is_the_value_itself() -> None:
    _, graph, _ = hoisted(lambda m, x: x @ (m.weight.t() * 2), weight=WEIGHT)
    (product,) = graph.operations(aten.matmul)
    assert torch.equal(graph.constant_value(product.args[1]), WEIGHT.t() * 2)


def test_the_weight_that_nothing_reads_any_more_is_dropped() -> None:
    _, graph, _ = hoisted(lambda m, x: torch.matmul(x, m.weight.t()), weight=WEIGHT)
    assert [tuple(b.shape) for b in graph.module.buffers()] == [(6, 6)]


def test_what_depends_on_the_batch_stays() -> None:
    result, graph, model = hoisted(lambda _, x: x + torch.arange(x.shape[0])[:, None, None].float().sin())
    assert result.applied == []
    assert_same(model, graph, inputs(1), inputs(5))


def test_random_numbers_are_drawn_at_every_call() -> None:
    result, graph, _ = hoisted(lambda _, x: x + torch.rand(6).sin())
    assert result.applied == []
    assert reasons(result.refused) == ["it draws random numbers"]
    a, b = graph.module(*inputs(2)), graph.module(*inputs(2))
    assert not torch.equal(a, b)


def test_a_handed_back_constant_is_made_anew_at_every_call() -> None:
    result, graph, _ = hoisted(lambda _, x: (x.sin(), torch.arange(6) * 2))
    assert reasons(result.refused) == ["it is handed back: the caller could change our constant"]
    assert count(graph, aten.mul) == 1
    _, first = graph.module(*inputs(2))
    first.zero_()
    assert graph.module(*inputs(2))[1].tolist() == [0, 2, 4, 6, 8, 10]


def test_what_grows_beyond_the_limit_is_refused_and_its_inputs_are_tried() -> None:
    def gathered(m, x):
        return (x[:, :1] + torch.nn.functional.embedding(torch.arange(6).repeat(50), m.weight)).sum(1)

    result, graph, model = hoisted(gathered, {"max_bytes": 3000}, weight=WEIGHT)
    assert reasons(result.refused) == ["it would make the model 7056 bytes larger, above max_bytes 3000"]
    assert reasons(result.applied) == ["computed once: (300,) int64"]
    assert count(graph, aten.embedding) == 1
    assert_same(model, graph, inputs(2))


def test_a_sum_over_a_large_gather_is_small_and_hoisted() -> None:
    def function(m, x):
        return x + torch.nn.functional.embedding(torch.arange(6).repeat(50), m.weight).sum(0)

    result, graph, model = hoisted(function, {"max_bytes": 0}, weight=WEIGHT)
    assert len(graph.operations()) == len(result.applied) == 1
    assert_same(model, graph, inputs(2), tolerance=1e-4)


def test_an_expanded_weight_is_not_stored_expanded() -> None:
    result, graph, model = hoisted(
        lambda m, x: torch.einsum("btd,tde->bte", x, m.weight.sin().expand(4, 6, 6)), weight=WEIGHT
    )
    assert len(result.applied) == 1
    assert result.applied[0].reason == "computed once: (6, 6) float32"
    assert count(graph, aten.expand) == 1
    assert_same(model, graph, inputs(2))


def test_a_view_of_a_weight_that_is_needed_anyway_stays_a_view() -> None:
    result, graph, model = hoisted(lambda m, x: (x @ m.weight.t()) @ m.weight, weight=WEIGHT)
    assert result.applied == []
    assert count(graph, aten.t) == 1
    assert_same(model, graph, inputs(2))


def test_a_buffer_that_is_written_is_no_constant() -> None:
    def function(m, x):
        m.counter.add_(1)
        return x + m.counter.sin()

    result, _, _ = hoisted(function, counter=torch.zeros(1))
    assert result.applied == []


def test_a_cast_weight_is_cast_once() -> None:
    result, graph, model = hoisted(lambda m, x: x.double() @ m.weight.double(), weight=WEIGHT)
    assert len(result.applied) == 1
    assert count(graph, aten.to) == 1
    assert_same(model, graph, inputs(2))


def test_the_rewritten_graph_exports_again_with_its_dynamic_batch() -> None:
    _, graph, model = hoisted(rope)
    assert_equal_results(model, graph, inputs(1), inputs(7))
