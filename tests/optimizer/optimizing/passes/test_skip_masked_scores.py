"""Pointwise attention under a constant mask computes what the mask shows, block by block; any other mask is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from optimizer.optimizing.base import run_passes
from tests.optimizer.optimizing.support import BATCH, TIME, assert_equal_results, count, export, reasons, rewrite
from tests.optimizer.optimizing.truth import Calls, assert_same

aten = torch.ops.aten
HEADS, ROWS, DIM = 3, 13, 6
SMALL = {"min_rows": 3, "blocks": 4}


def args(batch: int, rows: int = ROWS) -> tuple[torch.Tensor, ...]:
    draw = torch.Generator().manual_seed(batch)
    heads = [torch.randn(batch, rows, HEADS, DIM, generator=draw) for _ in range(3)]
    return (*heads, torch.randn(batch, rows, rows, generator=draw))


def split(function: Any, *given: torch.Tensor, options: Any = SMALL, **buffers: torch.Tensor) -> tuple[Any, Any, Calls]:
    model = Calls(function, **buffers)
    exported = export(model, *given, dims={"args": ({0: BATCH},) * len(given)})
    result, graph = rewrite(exported, "skip_masked_scores", **options)
    return result, graph, model


def causal(rows: int = ROWS) -> torch.Tensor:
    return torch.ones(rows, rows).tril()


def scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch.einsum("bnhd,bmhd->bhnm", q, k)


def weighted(w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.einsum("bhnm,bmhd->bnhd", w, v)


def heads_first(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [t.transpose(1, 2) for t in tensors]


def by_matmul(m: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    q, k, v = heads_first(q, k, v)
    return (F.silu(q @ k.mT + bias[:, None]) / ROWS * m.causal) @ v


SPELLINGS = {
    "as published": lambda m, q, k, v, b: weighted(F.silu(scores(q, k) + b[:, None]) / ROWS * m.causal, v),
    "by matmul": by_matmul,
    "the mask in front": lambda m, q, k, v, b: weighted(m.causal * F.silu(scores(q, k) * 0.3 - b[:, None]), v),
    "filled with 0": lambda m, q, k, v, b: weighted(
        F.silu(scores(q, k) + b[:, None]).masked_fill(m.causal == 0, 0.0), v
    ),
    "filled before the silu": lambda m, q, k, v, b: weighted(
        F.silu((scores(q, k) + b[:, None]).masked_fill(m.causal == 0, -1e9)) / ROWS, v
    ),
    "where": lambda m, q, k, v, b: weighted(torch.where(m.causal > 0, F.relu(scores(q, k)).square(), 0.0), v),
    "a data mask behind": lambda m, q, k, v, b: weighted(F.silu(scores(q, k)) * m.causal * (b > 0).float()[:, None], v),
    "dropout in evaluation": lambda m, q, k, v, b: weighted(
        F.dropout(F.silu(scores(q, k)) * m.causal, 0.2, training=False), v
    ),
}


def hoisted(function: Any) -> tuple[Any, Any, Calls]:
    model = Calls(function, causal=causal())
    exported = export(model, *args(3), dims={"args": ({0: BATCH},) * 4})
    _, graph = rewrite(exported, "hoist_constants")
    (result,) = run_passes(graph, [("skip_masked_scores", SMALL)])
    return result, graph, model


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_causal_mask_leaves_four_blocks_of_rows(spelling: str) -> None:
    result, graph, model = hoisted(SPELLINGS[spelling])
    # rows 0-3, 3-6, 6-10, 10-13 (13 / 4 rounded) against keys 3, 6, 10, 13: 106 of 169 scores
    assert reasons(result.applied) == ["4 blocks of rows compute 63% of the scores"], reasons(result.refused)
    products = graph.operations(aten.matmul)
    assert [tuple(graph.shape(p)[-2:]) for p in products] == [
        (3, 3), (3, DIM), (3, 6), (3, DIM), (4, 10), (4, DIM), (3, 13), (3, DIM)
    ]  # fmt: skip
    assert count(graph, aten.einsum) == 0
    assert_same(model, graph, args(1), args(3), args(6))


def test_the_rewritten_graph_exports_again_with_its_dynamic_batch() -> None:
    _, graph, model = split(SPELLINGS["as published"], *args(3), causal=causal())
    assert_equal_results(model, graph, args(1), args(7))


def test_a_window_leaves_keys_out_on_both_sides() -> None:
    window = causal() - torch.ones(ROWS, ROWS).tril(-3)
    result, graph, model = split(SPELLINGS["as published"], *args(3), causal=window)
    # each block sees two keys before its first row: 3*3 + 3*5 + 4*6 + 3*5 = 63 of 169
    assert reasons(result.applied) == ["4 blocks of rows compute 37% of the scores"]
    assert_same(model, graph, args(2))


def test_rows_that_see_nothing_give_zeros() -> None:
    mask = causal()
    mask[:4] = 0
    result, graph, model = split(SPELLINGS["as published"], *args(2), causal=mask)
    assert len(result.applied) == 1
    assert graph.module(*args(2))[:, :4].abs().max() == 0
    assert_same(model, graph, args(2))


def test_a_mask_of_each_head_hides_only_what_all_heads_hide() -> None:
    masks = torch.stack([causal(), causal(), causal().T])
    result, _, _ = split(SPELLINGS["as published"], *args(2), causal=masks)
    assert reasons(result.refused) == ["its mask leaves 100% of the scores, more than 80%"]


NEAR_MISSES = {
    "its mask is not constant": lambda m, q, k, v, b: weighted(F.silu(scores(q, k)) * (b > 0)[:, None], v),
    "does not become 0": lambda m, q, k, v, b: weighted(F.silu(scores(q, k)) * m.causal + 0.5, v),
    "is needed elsewhere too (2 users)": lambda m, q, k, v, b: (
        lambda w: weighted(w, v) + w.sum()
    )(F.silu(scores(q, k)) * m.causal),
    "the right factor": lambda m, q, k, v, b: v.permute(0, 2, 3, 1) @ (F.silu(scores(q, k)) * m.causal),
    "more than 80%": lambda m, q, k, v, b: weighted(F.silu(scores(q, k)) * m.corner, v),
}  # fmt: skip


@pytest.mark.parametrize("reason", NEAR_MISSES)
def test_it_refuses_a_near_miss_with_the_reason(reason: str) -> None:
    corner = torch.ones(ROWS, ROWS)
    corner[0, -1] = 0
    result, graph, model = split(NEAR_MISSES[reason], *args(3), causal=causal(), corner=corner)
    assert result.applied == []
    assert any(reason in r for r in reasons(result.refused)), reasons(result.refused)
    assert result.refused[0].node
    assert_same(model, graph, args(2))


def test_a_shift_behind_the_mask_is_no_longer_hidden() -> None:
    def function(m, q, k, v, b):
        return weighted(F.silu(scores(q, k) * m.causal + b[:, None]), v)

    result, _, _ = split(function, *args(3), causal=causal())
    assert result.applied == []
    assert reasons(result.refused) == ["what its mask hides does not become 0"]


def test_a_function_that_is_not_0_at_0_undoes_the_mask() -> None:
    """sigmoid(0) is 1/2: a mask in front of it hides nothing."""

    def function(m, q, k, v, b):
        return weighted(torch.sigmoid(scores(q, k) * m.causal), v)

    result, _, _ = split(function, *args(3), causal=causal())
    assert reasons(result.refused) == ["what its mask hides does not become 0"]


def test_few_rows_and_softmax_attention_are_left_alone() -> None:
    result, _, _ = split(SPELLINGS["as published"], *args(3), options={}, causal=causal())
    assert reasons(result.refused) == ["13 rows are too few for two blocks of min_rows 32"]

    def softmax(m, q, k, v, b):
        return weighted(torch.softmax(scores(q, k), -1) * m.causal, v)

    result, _, _ = split(softmax, *args(3), causal=causal())
    assert result.applied == result.refused == []


def test_a_sequence_of_any_length_is_refused() -> None:
    def function(m, q, k, v):
        return weighted(F.silu(scores(q, k)) * m.causal[: q.shape[1], : q.shape[1]], v)

    model = Calls(function, causal=causal(64))
    exported = export(model, *args(3)[:3], dims={"args": ({0: BATCH, 1: TIME},) * 3})
    result, _ = rewrite(exported, "skip_masked_scores", **SMALL)
    assert result.applied == []
    assert reasons(result.refused) == ["its mask is not constant"]
