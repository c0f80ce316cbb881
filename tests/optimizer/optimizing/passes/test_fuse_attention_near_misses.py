"""What looks like attention and would give other numbers: casts that lose values, masks that make the scores larger."""

from __future__ import annotations

import pytest
import torch

from tests.optimizer.optimizing.passes.test_fuse_attention import (
    DIM,
    HEADS,
    KEYS,
    QUERIES,
    aten,
    fused,
    qkv,
    softmax,
)
from tests.optimizer.optimizing.support import count, export, reasons, rewrite
from tests.optimizer.optimizing.truth import Calls, assert_same


def scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return q @ k.transpose(-2, -1)


LOSSY = {
    "scores as whole numbers": (lambda _, q, k, v: softmax(scores(q, k).to(torch.int32).float()) @ v, "torch.int32"),
    "scores as truth": (lambda _, q, k, v: softmax(scores(q, k).bool().float()) @ v, "torch.bool"),
    "scores in float16": (lambda _, q, k, v: softmax(scores(q, k).half().float()) @ v, "torch.float16"),
    "softmax in bfloat16": (
        lambda _, q, k, v: torch.softmax(scores(q, k), -1, dtype=torch.bfloat16).float() @ v,
        "torch.bfloat16",
    ),
    "weights as whole numbers": (
        lambda _, q, k, v: (softmax(scores(q, k)) * 1.0).to(torch.int64).float() @ v,
        None,
    ),
    "weights cast to whole numbers": (
        lambda _, q, k, v: softmax(scores(q, k)).to(torch.int64).float() @ v,
        "torch.int64",
    ),
    "weights in float16": (lambda _, q, k, v: softmax(scores(q, k)).half().float() @ v, "torch.float16"),
}


@pytest.mark.parametrize("case", LOSSY)
def test_a_cast_that_loses_values_is_not_left_out(case: str) -> None:
    function, dtype = LOSSY[case]
    result, graph, model = fused(function, *qkv(3))
    assert result.applied == []
    assert count(graph, aten.scaled_dot_product_attention) == 0
    wanted = "not to a product with values" if dtype is None else f"makes {dtype} of what is computed from"
    assert any(wanted in reason for reason in reasons(result.refused)), reasons(result.refused)
    assert_same(model, graph, qkv(2))


def test_a_wider_float_between_scores_and_weights_is_looked_through() -> None:
    def function(_, q, k, v):
        return softmax(scores(q, k).double()).float() @ v

    result, graph, model = fused(function, *qkv(3))
    assert len(result.applied) == 1, reasons(result.refused)
    assert_same(model, graph, qkv(2))


def test_bfloat16_scores_are_not_taken_through_float16_whose_range_is_smaller() -> None:
    def function(_, q, k, v):
        return softmax(scores(q, k).half()).bfloat16() @ v

    result, _, _ = fused(function, *(x.bfloat16() for x in qkv(3)))
    assert result.applied == []
    assert any("makes torch.float16 of what is computed from torch.bfloat16" in r for r in reasons(result.refused))


@pytest.mark.parametrize("spelling", ["added", "subtracted", "the mask first"])
def test_a_mask_of_more_batches_than_the_queries_is_refused(spelling: str) -> None:
    def function(m, q, k, v):
        s = scores(q, k)
        return softmax({"added": s + m.mask, "subtracted": s - m.mask, "the mask first": m.mask + s}[spelling]) @ v

    result, graph = rewrite(export(Calls(function, mask=torch.ones(4, 1, 1, KEYS)), *qkv(1)), "fuse_attention")
    assert result.applied == []
    assert "the mask makes the scores larger" in reasons(result.refused)
    assert count(graph, aten.scaled_dot_product_attention) == 0


def test_a_mask_of_as_many_batches_as_the_queries_is_fused() -> None:
    model = Calls(lambda m, q, k, v: softmax(scores(q, k) + m.mask) @ v, mask=torch.ones(4, 1, 1, KEYS))
    result, graph = rewrite(export(model, *qkv(4)), "fuse_attention")
    assert len(result.applied) == 1
    assert_same(model, graph, qkv(4))


OTHERWISE = {
    "two fills of different size": lambda m, q, k, v: (
        softmax(scores(q, k).masked_fill(m.far, -1e9).masked_fill(m.odd, -1e4)) @ v
    ),
    "something is added to filled scores": lambda m, q, k, v: (
        softmax(scores(q, k).masked_fill(m.far, -1e4) + m.bias) @ v
    ),
    "set to 0 by another mask": lambda m, q, k, v: (
        softmax(scores(q, k).masked_fill(m.far, -1e9)).masked_fill(m.odd, 0.0) @ v
    ),
    "an added mask may be -inf": lambda m, q, k, v: (
        softmax((scores(q, k) + q.log().sum((1, 2, 3), keepdim=True)).masked_fill(m.far, -1e9)).masked_fill(m.far, 0.0)
        @ v
    ),
    "come to -500": lambda m, q, k, v: softmax(scores(q, k).masked_fill(m.far, -1e4) * 0.05) @ v,
    "differs along the keys": lambda m, q, k, v: softmax(scores(q, k) * v.mean(-1)[:, :, None]) @ v,
    "in another layout": lambda m, q, k, v: softmax((scores(k, q) * q.mean((2, 3), keepdim=True)).mT) @ v,
    "runs over dimension -2": lambda m, q, k, v: torch.softmax(scores(q, k), -2) @ v,
    "runs over dimension 1": lambda m, q, k, v: torch.softmax(scores(q, k), 1) @ v,
    "is needed elsewhere too": lambda m, q, k, v: (lambda s: softmax(s + m.bias) @ v * s.mean())(scores(q, k)),
    "exp.default stands between": lambda m, q, k, v: softmax(scores(q, k).exp()) @ v,
    "no constant number": lambda m, q, k, v: softmax(scores(q, k).masked_fill(m.far, q.min() * 1e9)) @ v,
    "does not sum over the keys": lambda m, q, k, v: torch.einsum("bhqk,bhkd->bhkd", softmax(scores(q, k)), v),
}


@pytest.mark.parametrize("reason", OTHERWISE)
def test_it_refuses_what_would_give_other_numbers_with_reason_and_node(reason: str) -> None:
    buffers = {
        "far": torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(2),
        "odd": torch.arange(KEYS) % 2 == 1,
        "bias": torch.arange(float(KEYS)),
    }
    result, graph, model = fused(OTHERWISE[reason], *(x.abs() for x in qkv(3)), **buffers)
    assert result.applied == []
    assert any(reason in site.reason and site.node for site in result.refused), reasons(result.refused)
    assert count(graph, aten.scaled_dot_product_attention) == 0
    assert_same(model, graph, tuple(x.abs() for x in qkv(2)))


def test_two_lowest_numbers_together_hide_a_row_as_minus_infinity_does() -> None:
    """-3.4e38 twice is -inf in float32: a row of these gives NaN, one of a single lowest number the mean."""
    lowest = torch.finfo(torch.float32).min

    def function(_, q, k, v, near, far):
        return softmax(scores(q, k) + near * lowest + far * lowest) @ v

    def args(*hidden: float) -> tuple[torch.Tensor, ...]:
        return (*qkv(2), *[torch.full((2, 1, 1, KEYS), h) for h in hidden])

    result, graph, model = fused(function, *args(0.0, 1.0))
    assert len(result.applied) == 1
    assert graph.module(*args(1.0, 1.0)).isnan().all()
    assert_same(model, graph, args(1.0, 1.0), args(1.0, 0.0), args(0.0, 0.0))


def test_heads_that_are_grouped_otherwise_in_the_values_are_left_flat() -> None:
    def function(_, q, k, v):
        q, k = (x.flatten(0, 1) for x in (q, k))
        v = v.transpose(0, 1).flatten(0, 1)
        return torch.bmm(softmax(torch.bmm(q, k.transpose(1, 2))), v)

    result, graph, model = fused(function, *qkv(3))
    assert len(result.applied) == 1, reasons(result.refused)
    (call,) = graph.operations(aten.scaled_dot_product_attention)
    assert graph.shape(graph.arguments(call)["query"])[1:] == (1, QUERIES, DIM)
    assert_same(model, graph, qkv(2), qkv(HEADS))
