"""Attention in the spellings people use becomes one call; near misses are refused with the reason."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tests.optimizer.optimizing.support import BATCH, assert_equal_results, count, export, reasons, rewrite
from tests.optimizer.optimizing.truth import Calls, assert_same

aten = torch.ops.aten
HEADS, QUERIES, KEYS, DIM = 2, 5, 7, 8
MASK = {0: BATCH}


def tensors(batch: int, *shapes: tuple[int, ...], seed: int = 0) -> tuple[torch.Tensor, ...]:
    draw = torch.Generator().manual_seed(seed + batch)
    return tuple(torch.randn(batch, *shape, generator=draw) for shape in shapes)


def qkv(batch: int, rows: int = QUERIES, columns: int = KEYS) -> tuple[torch.Tensor, ...]:
    return tensors(batch, (HEADS, rows, DIM), (HEADS, columns, DIM), (HEADS, columns, DIM))


def kept(batch: int) -> torch.Tensor:
    """Which keys may be seen: never none of a row."""
    return torch.arange(KEYS)[None, None, None, :] < torch.arange(1, batch + 1)[:, None, None, None]


def fused(function: Any, *args: torch.Tensor, **buffers: torch.Tensor) -> tuple[Any, Any, Calls]:
    model = Calls(function, **buffers)
    result, graph = rewrite(export(model, *args, dims={"args": (MASK,) * len(args)}), "fuse_attention")
    return result, graph, model


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=-1)


PLAIN = {
    "scale on the scores": lambda _, q, k, v: softmax(q @ k.transpose(-1, -2) / math.sqrt(DIM)) @ v,
    "scale by a product": lambda _, q, k, v: softmax(DIM**-0.5 * torch.matmul(q, k.transpose(2, 3))) @ v,
    "scale on the queries": lambda _, q, k, v: softmax((q * DIM**-0.5) @ k.mT) @ v,
    "no scale": lambda _, q, k, v: softmax(q @ k.transpose(-2, -1)) @ v,
    "scale twice": lambda _, q, k, v: softmax((q / 2) @ k.transpose(-2, -1) * 0.3) @ v,
    "scale by a buffer": lambda m, q, k, v: softmax(q @ k.transpose(-2, -1) / m.root) @ v,
    "float32 softmax": lambda _, q, k, v: torch.softmax(q @ k.mT, -1, dtype=torch.float32).to(q.dtype) @ v,
    "dropout in evaluation": lambda _, q, k, v: torch.dropout(softmax(q @ k.transpose(-2, -1)), 0.1, False) @ v,
    "einsum": lambda _, q, k, v: torch.einsum(
        "bhqk,bhkd->bhqd", softmax(torch.einsum("bhqd,bhkd->bhqk", q, k) * 0.5), v
    ),
    "einsum over unpermuted tensors": lambda _, q, k, v: torch.einsum(
        "bhij,bjhd->bihd",
        softmax(torch.einsum("bihd,bjhd->bhij", q.transpose(1, 2), k.transpose(1, 2)) * 0.5),
        v.transpose(1, 2),
    ),
    "einsum with the keys first": lambda _, q, k, v: torch.einsum(
        "bhkd,bhqk->bhqd", v, softmax(torch.einsum("bhkd,bhqd->bhqk", k, q))
    ),
    "keys permuted at once": lambda _, q, k, v: (
        softmax(q @ k.transpose(1, 2).reshape(k.shape[0], KEYS, HEADS, DIM).permute(0, 2, 3, 1)) @ v
    ),
    "one query": lambda _, q, k, v: softmax(q[:, :, :1] @ k.transpose(-2, -1)) @ v,
}


@pytest.mark.parametrize("spelling", PLAIN)
def test_attention_without_a_mask_is_fused(spelling: str) -> None:
    root = torch.tensor(math.sqrt(DIM))
    result, graph, model = fused(PLAIN[spelling], *qkv(3), root=root)
    assert len(result.applied) == 1, reasons(result.refused)
    assert count(graph, aten.scaled_dot_product_attention) == 1
    assert count(graph, aten.softmax, aten.matmul, aten.einsum) == 0
    (call,) = graph.operations(aten.scaled_dot_product_attention)
    assert call.kwargs["scale"] is not None
    assert_same(model, graph, qkv(1), qkv(3), qkv(7))


ADDED = {
    "mask behind": lambda _, q, k, v, m: softmax(q @ k.transpose(-2, -1) / 3 + m) @ v,
    "mask before": lambda _, q, k, v, m: softmax(m + q @ k.transpose(-2, -1) / 3) @ v,
    "mask taken off": lambda _, q, k, v, m: softmax(q @ k.transpose(-2, -1) / 3 - m) @ v,
    "two masks": lambda _, q, k, v, m: softmax(q @ k.transpose(-2, -1) + m + m.sin()) @ v,
    "cast around": lambda _, q, k, v, m: torch.softmax((q @ k.transpose(-2, -1)).float() + m, -1).type_as(q) @ v,
}


@pytest.mark.parametrize("spelling", ADDED)
@pytest.mark.parametrize("shape", [(1, 1, KEYS), (HEADS, QUERIES, KEYS)], ids=["keys", "full"])
def test_an_added_mask_is_kept(spelling: str, shape: tuple[int, ...]) -> None:
    def args(batch):
        return (*qkv(batch), *tensors(batch, shape, seed=9))

    result, graph, model = fused(ADDED[spelling], *args(3))
    assert len(result.applied) == 1, reasons(result.refused)
    (call,) = graph.operations(aten.scaled_dot_product_attention)
    assert graph.arguments(call)["attn_mask"] is not None
    assert graph.arguments(call)["is_causal"] is False
    assert_same(model, graph, args(1), args(3), args(5))


FILLED = {
    "masked_fill": lambda _, q, k, v, m: softmax((q @ k.transpose(-2, -1) / 3).masked_fill(~m, -1e9)) @ v,
    "masked_fill with -inf": lambda _, q, k, v, m: (
        softmax((q @ k.transpose(-2, -1)).masked_fill(m == 0, float("-inf"))) @ v
    ),
    "where": lambda _, q, k, v, m: softmax(torch.where(m, q @ k.transpose(-2, -1), -1e4)) @ v,
    "where with a tensor": lambda n, q, k, v, m: softmax(torch.where(m, q @ k.transpose(-2, -1), n.low)) @ v,
    "where the other way": lambda _, q, k, v, m: (
        softmax(torch.where(~m, torch.finfo(q.dtype).min, q @ k.transpose(-2, -1))) @ v
    ),
    "two fills": lambda n, q, k, v, m: (
        softmax((q @ k.transpose(-2, -1)).masked_fill(~m, -1e9).masked_fill(n.far, -1e9)) @ v
    ),
    "fill and add": lambda n, q, k, v, m: softmax((q @ k.transpose(-2, -1) + n.bias).masked_fill(~m, -1e9)) @ v,
    "(1 - m) * -10000": lambda _, q, k, v, m: softmax(q @ k.transpose(-2, -1) + (1.0 - m.float()) * -10000.0) @ v,
}


@pytest.mark.parametrize("spelling", FILLED)
def test_a_filled_mask_becomes_an_added_one(spelling: str) -> None:
    draw = torch.Generator().manual_seed(4)
    buffers = {
        "low": torch.tensor(-1e9),
        "far": torch.arange(KEYS)[None, :] > torch.arange(QUERIES)[:, None] + 2,
        "bias": torch.randn(1, HEADS, QUERIES, KEYS, generator=draw),
    }

    def args(batch):
        return (*qkv(batch), kept(batch))

    result, graph, model = fused(FILLED[spelling], *args(3), **buffers)
    assert len(result.applied) == 1, reasons(result.refused)
    assert count(graph, aten.softmax, aten.masked_fill) == 0
    assert_same(model, graph, args(1), args(3), args(6))


@pytest.mark.parametrize("value", [-1e4, -1e9, torch.finfo(torch.float32).min])
def test_a_row_that_is_filled_throughout_still_gives_the_mean(value: float) -> None:
    def function(_, q, k, v, m):
        return softmax((q @ k.transpose(-2, -1)).masked_fill(m, value)) @ v

    hidden = torch.ones(3, 1, 1, KEYS, dtype=torch.bool)
    _, graph, model = fused(function, *qkv(3), hidden)
    assert_same(model, graph, (*qkv(3), hidden))
    *_, v = qkv(3)
    out = graph.module(*qkv(3), hidden)
    torch.testing.assert_close(out, v.mean(-2, keepdim=True).expand_as(out), rtol=1e-5, atol=1e-5)


def test_a_row_that_is_minus_infinity_throughout_stays_nan() -> None:
    def function(_, q, k, v, m):
        return softmax((q @ k.transpose(-2, -1)).masked_fill(m, -torch.inf)) @ v

    result, graph, model = fused(function, *qkv(2), ~kept(2))
    assert len(result.applied) == 1
    hidden = ~kept(2)
    hidden[1] = True
    out = graph.module(*qkv(2), hidden)
    assert out[1].isnan().all() and not out[0].isnan().any()
    assert_same(model, graph, (*qkv(2), hidden))


def triangle(value: float, size: int = QUERIES) -> torch.Tensor:
    return torch.full((size, size), value).triu(1)


@pytest.mark.parametrize("value", [-torch.inf, -1e9, torch.finfo(torch.float32).min])
def test_a_constant_lower_triangle_becomes_causal(value: float) -> None:
    def function(m, q, k, v):
        return softmax(q @ k.transpose(-2, -1) / 3 + m.mask) @ v

    result, graph, model = fused(function, *qkv(3, columns=QUERIES), mask=triangle(value)[None, None])
    (call,) = graph.operations(aten.scaled_dot_product_attention)
    assert graph.arguments(call)["is_causal"] is True
    assert graph.arguments(call)["attn_mask"] is None
    assert "causal" in result.applied[0].reason
    assert_same(model, graph, qkv(1, columns=QUERIES), qkv(4, columns=QUERIES))


def test_a_filled_lower_triangle_becomes_causal() -> None:
    def function(m, q, k, v):
        return softmax((q @ k.transpose(-2, -1)).masked_fill(m.tril == 0, -torch.inf)) @ v

    model = Calls(function, tril=torch.ones(QUERIES, QUERIES).tril())
    exported = export(model, *qkv(3, columns=QUERIES), dims={"args": (MASK,) * 3})
    _, graph = rewrite(exported, "hoist_constants")
    from optimizer.optimizing.base import run_passes

    run_passes(graph, [("fuse_attention", {})])
    (call,) = graph.operations(aten.scaled_dot_product_attention)
    assert graph.arguments(call)["is_causal"] is True
    assert_same(model, graph, qkv(2, columns=QUERIES))


NOT_QUITE_CAUSAL = {
    "shifted by one": triangle(-torch.inf).roll(1, 1).tril(0) + triangle(-torch.inf).triu(2),
    "weakly hidden": triangle(-5.0),
    "a bias below": triangle(-torch.inf) + 0.5 * torch.eye(QUERIES),
    "upside down": triangle(-1e9).T,
}


@pytest.mark.parametrize("case", NOT_QUITE_CAUSAL)
def test_a_mask_that_is_not_exactly_causal_stays_a_mask(case: str) -> None:
    def function(m, q, k, v):
        return softmax(q @ k.transpose(-2, -1) + m.mask) @ v

    _, graph, model = fused(function, *qkv(3, columns=QUERIES), mask=NOT_QUITE_CAUSAL[case].nan_to_num(nan=0.0))
    (call,) = graph.operations(aten.scaled_dot_product_attention)
    assert graph.arguments(call)["is_causal"] is False
    assert_same(model, graph, qkv(2, columns=QUERIES))


def test_a_triangle_that_is_not_square_stays_a_mask() -> None:
    def function(m, q, k, v):
        return softmax(q @ k.transpose(-2, -1) + m.mask) @ v

    _, graph, model = fused(function, *qkv(3), mask=torch.full((QUERIES, KEYS), -torch.inf).triu(1))
    (call,) = graph.operations(aten.scaled_dot_product_attention)
    assert graph.arguments(call)["is_causal"] is False
    assert_same(model, graph, qkv(2))


def test_three_dimensions_without_heads_are_fused() -> None:
    def function(_, q, k, v, m):
        return torch.bmm(softmax(torch.bmm(q, k.transpose(1, 2)) / 3 + m), v)

    def args(batch):
        return tensors(batch, (QUERIES, DIM), (KEYS, DIM), (KEYS, DIM), (1, KEYS))

    result, graph, model = fused(function, *args(3))
    assert len(result.applied) == 1
    (call,) = graph.operations(aten.scaled_dot_product_attention)
    assert len(graph.shape(call)) == 4, "the fused CPU kernel takes four dimensions only"
    assert_same(model, graph, args(1), args(5))


def test_values_may_be_wider_than_keys() -> None:
    def args(batch):
        return tensors(batch, (HEADS, QUERIES, 4), (HEADS, KEYS, 4), (HEADS, KEYS, 10))

    result, graph, model = fused(PLAIN["no scale"], *args(3))
    assert len(result.applied) == 1
    assert_same(model, graph, args(5))


def test_repeated_keys_of_grouped_queries_stay_in_place() -> None:
    def function(_, q, k, v):
        batch = q.shape[0]
        k, v = (x[:, :, None].expand(batch, 1, 2, KEYS, DIM).reshape(batch, 2, KEYS, DIM) for x in (k, v))
        return softmax(q @ k.transpose(2, 3)) @ v

    def args(batch):

        return tensors(batch, (2, QUERIES, DIM), (1, KEYS, DIM), (1, KEYS, DIM))

    result, graph, model = fused(function, *args(3))
    assert len(result.applied) == 1
    assert_same(model, graph, args(2))


def test_bfloat16_with_a_float32_softmax_is_fused() -> None:
    def function(_, q, k, v):
        return torch.softmax((q @ k.mT / 3).float(), -1).to(torch.bfloat16) @ v

    args = tuple(x.bfloat16() for x in qkv(3))
    result, graph, model = fused(function, *args)
    assert len(result.applied) == 1, reasons(result.refused)
    assert_same(model, graph, args, tolerance=3e-2)


def test_layers_that_share_a_mask_share_what_is_built_from_it() -> None:
    def function(_, q, k, v, m):
        for _ in range(3):
            q = softmax((q @ k.transpose(-2, -1)).masked_fill(m, -1e9)) @ v
        return q

    result, graph, model = fused(function, *qkv(3), ~kept(3))
    assert len(result.applied) == 3
    assert count(graph, aten.where) == 1
    assert_same(model, graph, (*qkv(5), ~kept(5)))


def test_the_rewritten_graph_exports_again_with_its_dynamic_batch() -> None:
    result, graph, model = fused(FILLED["masked_fill"], *qkv(3), kept(3))
    assert len(result.applied) == 1
    assert_equal_results(model, graph, (*qkv(1), kept(1)), (*qkv(7), kept(7)))


REFUSED = {
    "needed elsewhere": lambda _, q, k, v: (lambda s: softmax(s) @ v + s.sum())(q @ k.transpose(-2, -1)),
    "not over the keys": lambda _, q, k, v: torch.softmax(q @ k.transpose(-2, -1), -2) @ v,
    "weights are handed back": lambda _, q, k, v: (lambda w: (w @ v, w))(softmax(q @ k.transpose(-2, -1))),
    "weights are needed by": lambda _, q, k, v: (lambda w: w @ v + w.sum())(softmax(q @ k.transpose(-2, -1))),
    "dropout of the weights is active": lambda _, q, k, v: torch.dropout(softmax(q @ k.mT), 0.5, True) @ v,
    "differs along the keys": lambda m, q, k, v: softmax(q @ k.transpose(-2, -1) * m.by_key) @ v,
    "after the mask": lambda m, q, k, v: softmax((q @ k.transpose(-2, -1) + m.bias) * m.temperature) @ v,
    "does not hide them": lambda m, q, k, v: softmax((q @ k.transpose(-2, -1)).masked_fill(m.far, 0.0)) @ v,
    "not the left": lambda _, q, k, v: v.transpose(-2, -1) @ softmax(k @ q.transpose(-2, -1)),
    "-inf throughout": lambda m, q, k, v: softmax(q @ k.transpose(-2, -1) + m.none) @ v,
    "6 dimensions": lambda _, q, k, v: softmax(q[None, None] @ k[None, None].mT) @ v[None, None],
    "tanh.default stands between": lambda _, q, k, v: softmax(torch.tanh(q @ k.mT / 30) * 30) @ v,
}


@pytest.mark.parametrize("reason", REFUSED)
def test_it_refuses_a_near_miss_with_the_reason(reason: str) -> None:
    buffers = {
        "bias": torch.ones(QUERIES, KEYS),
        "temperature": torch.ones(HEADS, 1, 1),
        "by_key": torch.ones(KEYS),
        "far": torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(2),
        "none": torch.zeros(QUERIES, KEYS).index_fill(0, torch.tensor([2]), -torch.inf),
    }
    result, graph, _ = fused(REFUSED[reason], *qkv(3), **buffers)
    assert result.applied == []
    assert any(reason in r for r in reasons(result.refused)), reasons(result.refused)
    assert count(graph, aten.scaled_dot_product_attention) == 0


def test_a_softmax_that_is_no_attention_is_passed_over_in_silence() -> None:
    result, _, _ = fused(lambda _, q: softmax(q.sin()), *qkv(3)[:1])
    assert result.applied == result.refused == []


def test_scores_of_a_single_memory_matrix_are_passed_over() -> None:
    def function(m, q):
        return softmax(q @ m.memory) @ m.memory.T

    result, _, _ = fused(function, *tensors(3, (QUERIES, DIM)), memory=torch.randn(DIM, KEYS))
    assert result.applied == []
