"""What looks like attention and would give other numbers: casts that lose values, masks that make the scores larger."""

from __future__ import annotations

import pytest
import torch

from tests.optimizer.optimizing.passes.test_fuse_attention import KEYS, aten, fused, qkv, softmax
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
