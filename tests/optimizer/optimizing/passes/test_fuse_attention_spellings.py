"""Where real models put the scale, the heads, the bias and the mask: each becomes one call, for other sizes too."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.optimizer.optimizing.passes.test_fuse_attention import (
    DIM,
    HEADS,
    KEYS,
    QUERIES,
    aten,
    fused,
    kept,
    qkv,
    softmax,
    tensors,
)
from tests.optimizer.optimizing.support import BATCH, TIME, count, export, reasons, rewrite
from tests.optimizer.optimizing.truth import Calls, assert_same


def the_call(graph: Any) -> dict[str, Any]:
    (call,) = graph.operations(aten.scaled_dot_product_attention)
    assert count(graph, aten.softmax, aten.bmm, aten.einsum) == 0
    return graph.arguments(call)


def scaled_before_heads(_: Any, x: torch.Tensor) -> torch.Tensor:
    heads = [t.view(-1, QUERIES, HEADS, DIM).transpose(1, 2) for t in (x * DIM**-0.5, x.sin(), x.cos())]
    return softmax(heads[0] @ heads[1].transpose(-1, -2)) @ heads[2]


SCALES = {
    "on the keys": (lambda _, q, k, v: softmax(q @ (k * 0.25).transpose(-1, -2)) @ v, 0.25),
    "on the transposed keys": (lambda _, q, k, v: softmax(q @ (k.transpose(-1, -2) / 4)) @ v, 0.25),
    "a root on each": (lambda _, q, k, v: softmax((q * 0.5) @ (k * 0.5).mT) @ v, 0.25),
    "by einsum with an ellipsis": (
        lambda _, q, k, v: torch.einsum("...qk,...kd->...qd", softmax(torch.einsum("...qd,...kd->...qk", q, k) / 4), v),
        0.25,
    ),
}


@pytest.mark.parametrize("where", SCALES)
def test_the_scale_is_found_wherever_it_stands(where: str) -> None:
    function, scale = SCALES[where]
    result, graph, model = fused(function, *qkv(3))
    assert len(result.applied) == 1, reasons(result.refused)
    assert the_call(graph)["scale"] == pytest.approx(scale)
    assert count(graph, aten.mul, aten.div) == 0
    assert_same(model, graph, qkv(1), qkv(5))


def test_a_scale_in_front_of_the_split_into_heads_is_taken_along() -> None:
    result, graph, model = fused(scaled_before_heads, *tensors(3, (QUERIES, HEADS * DIM)))
    assert len(result.applied) == 1, reasons(result.refused)
    assert the_call(graph)["scale"] == pytest.approx(DIM**-0.5)
    assert count(graph, aten.mul) == 0
    assert_same(model, graph, tensors(1, (QUERIES, HEADS * DIM)), tensors(4, (QUERIES, HEADS * DIM)))


def test_scaled_queries_that_are_needed_elsewhere_stay() -> None:
    def function(_, q, k, v):
        scaled = q * 0.5
        return softmax(scaled @ k.mT) @ v, scaled.sum()

    result, graph, model = fused(function, *qkv(3))
    assert len(result.applied) == 1, reasons(result.refused)
    assert the_call(graph)["scale"] == 1.0
    assert count(graph, aten.mul) == 1
    assert_same(model, graph, qkv(2))


ROW_SCALES = {
    "of each head": lambda m, q, k, v: softmax(q @ k.mT * m.temperature) @ v,
    "of each head, divided": lambda m, q, k, v: softmax(q @ k.mT / m.temperature) @ v,
    "from the data": lambda m, q, k, v: softmax(q @ k.mT * q.mean((-1, -2), keepdim=True)) @ v,
    "one number from the data": lambda m, q, k, v: softmax(m.temperature.sum() * q.sum() * (q @ k.mT)) @ v,
    "of each query": lambda m, q, k, v: softmax(q @ k.mT * q[..., :1] + m.temperature) @ v,
}


@pytest.mark.parametrize("case", ROW_SCALES)
def test_a_tensor_that_is_the_same_for_all_keys_moves_to_the_queries(case: str) -> None:
    temperature = torch.tensor([0.5, 2.0]).view(HEADS, 1, 1)
    result, graph, model = fused(ROW_SCALES[case], *qkv(3), temperature=temperature)
    assert len(result.applied) == 1, reasons(result.refused)
    assert "moved to the queries" in result.applied[0].reason
    the_call(graph)
    assert_same(model, graph, qkv(1), qkv(4))


def test_a_scale_behind_the_mask_scales_the_mask_too() -> None:
    def function(m, q, k, v):
        return softmax((q @ k.mT + m.bias) * 0.5 - m.bias) @ v

    bias = torch.randn(HEADS, QUERIES, KEYS, generator=torch.Generator().manual_seed(3))
    result, graph, model = fused(function, *qkv(3), bias=bias)
    assert len(result.applied) == 1, reasons(result.refused)
    mask = the_call(graph)["attn_mask"]
    seen = torch.fx.Interpreter(graph.module, garbage_collect_values=False)
    seen.run(*qkv(2))
    torch.testing.assert_close(seen.env[mask], -0.5 * bias[None], rtol=1e-6, atol=1e-6)
    assert_same(model, graph, qkv(1), qkv(4))


def flattened(masked: bool) -> Any:
    def function(_: Any, x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        batch = x.shape[0]
        heads = [t.view(batch, -1, HEADS, DIM).transpose(1, 2) for t in (x * 0.3, x.sin(), x.cos())]
        q, k, v = (t.reshape(batch * HEADS, -1, DIM) for t in heads)
        w = torch.bmm(q, k.transpose(1, 2))
        if masked:
            w = w.view(batch, HEADS, QUERIES, QUERIES) + m
            w = w.view(batch * HEADS, QUERIES, QUERIES)
        out = torch.bmm(F.dropout(softmax(w), 0.1, training=False), v)
        return out.view(batch, HEADS, QUERIES, DIM).transpose(1, 2).reshape(batch, QUERIES, HEADS * DIM)

    return function


@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked by batch"])
def test_heads_flattened_into_the_batch_are_taken_apart_again(masked: bool) -> None:
    def args(batch):
        return tensors(batch, (QUERIES, HEADS * DIM), (1, QUERIES, QUERIES))

    result, graph, model = fused(flattened(masked), *args(3))
    assert len(result.applied) == 1, reasons(result.refused)
    call = the_call(graph)
    assert tuple(graph.shape(call["query"])[1:]) == (HEADS, QUERIES, DIM)
    assert graph.shape(call["query"])[0] == graph.shape(graph.inputs[0])[0]
    assert_same(model, graph, args(1), args(4))


def test_a_mask_of_the_flattened_heads_is_taken_apart_too() -> None:
    def function(_, x, m):
        heads = [t.view(-1, QUERIES, HEADS, DIM).transpose(1, 2).flatten(0, 1) for t in (x, x.sin(), x.cos())]
        scores = torch.bmm(heads[0], heads[1].transpose(1, 2)).masked_fill(m.repeat_interleave(HEADS, 0), -1e9)
        return torch.bmm(softmax(scores), heads[2])

    def args(batch):
        hidden = torch.rand(batch, 1, QUERIES, generator=torch.Generator().manual_seed(batch)) > 0.5
        hidden[0] = True
        return (*tensors(batch, (QUERIES, HEADS * DIM)), hidden)

    result, graph, model = fused(function, *args(3))
    assert len(result.applied) == 1, reasons(result.refused)
    assert_same(model, graph, args(1), args(4))


TRANSPOSED = {
    "weights turned, on the right": lambda _, q, k, v: v.mT @ softmax(q @ k.mT).mT,
    "scores of keys by queries": lambda _, q, k, v: v.mT @ torch.softmax(k @ q.mT, -2),
    "scores turned before the softmax": lambda _, q, k, v: softmax((k @ q.mT).transpose(-1, -2) * 0.5) @ v,
    "weights turned, on the left": lambda _, q, k, v: torch.softmax(k @ q.mT / 2, 2).transpose(2, 3) @ v,
    "einsum": lambda _, q, k, v: torch.einsum(
        "bhkq,bhkd->bhqd", torch.softmax(torch.einsum("bhkd,bhqd->bhkq", k, q), -2), v
    ),
}


@pytest.mark.parametrize("spelling", TRANSPOSED)
def test_scores_that_are_written_transposed_are_fused(spelling: str) -> None:
    result, graph, model = fused(TRANSPOSED[spelling], *qkv(3))
    assert len(result.applied) == 1, reasons(result.refused)
    the_call(graph)
    assert_same(model, graph, qkv(1), qkv(4))


def test_a_mask_on_transposed_scores_is_turned() -> None:
    def function(m, q, k, v):
        return v.mT @ torch.softmax((k @ q.mT + m.bias).masked_fill(m.far, -torch.inf), -2)

    draw = torch.Generator().manual_seed(2)
    buffers = {"bias": torch.randn(KEYS, QUERIES, generator=draw), "far": torch.ones(KEYS, 1).cumsum(0) > 4}
    result, graph, model = fused(function, *qkv(3), **buffers)
    assert len(result.applied) == 1, reasons(result.refused)
    assert tuple(graph.shape(the_call(graph)["attn_mask"])[-2:]) == (QUERIES, KEYS)
    assert_same(model, graph, qkv(1), qkv(4))


def grouped(repeat: str, rows: int) -> Any:
    def function(_: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        batch = q.shape[0]
        if repeat == "repeat_interleave":
            k, v = (x.repeat_interleave(3, 1) for x in (k, v))
        elif repeat == "expand":
            k, v = (x[:, :, None].expand(batch, 2, 3, KEYS, DIM).reshape(batch, 6, KEYS, DIM) for x in (k, v))
        else:
            q, k, v = q.view(batch, 2, 3, rows, DIM), k[:, :, None], v[:, :, None]
            return softmax(q @ k.mT / 3 + m[:, None]) @ v
        return softmax(q @ k.mT / 3 + m) @ v

    return function


@pytest.mark.parametrize("rows", [1, QUERIES])
@pytest.mark.parametrize("repeat", ["repeat_interleave", "expand", "broadcast"])
def test_grouped_queries_are_fused_and_a_single_query_repeats_nothing(repeat: str, rows: int) -> None:
    def args(batch):
        return tensors(batch, (6, rows, DIM), (2, KEYS, DIM), (2, KEYS, DIM), (1, 1, KEYS))

    result, graph, model = fused(grouped(repeat, rows), *args(3))
    assert len(result.applied) == 1, reasons(result.refused)
    call = the_call(graph)
    if repeat != "broadcast":
        assert graph.shape(call["key"])[1] == (2 if rows == 1 else 6)
        assert tuple(graph.shape(call["query"])[1:3]) == ((2, 3) if rows == 1 else (6, QUERIES))
    assert_same(model, graph, args(1), args(4))


def test_a_bias_of_each_head_keeps_the_repeated_keys() -> None:
    def function(m, q, k, v):
        k, v = (x.repeat_interleave(3, 1) for x in (k, v))
        return softmax(q @ k.mT + m.bias) @ v

    def args(batch):
        return tensors(batch, (6, 1, DIM), (2, KEYS, DIM), (2, KEYS, DIM))

    _, graph, model = fused(function, *args(3), bias=torch.arange(6.0).view(6, 1, 1) * torch.arange(KEYS))
    assert graph.shape(the_call(graph)["key"])[1] == 6
    assert_same(model, graph, args(2))


def test_keys_that_all_heads_share_and_queries_that_all_batches_share() -> None:
    def function(m, k, v):
        return softmax(m.latents @ k.mT) @ v

    def args(batch):
        return tensors(batch, (1, KEYS, DIM), (1, KEYS, DIM))

    latents = torch.randn(1, HEADS, QUERIES, DIM, generator=torch.Generator().manual_seed(8))
    result, graph, model = fused(function, *args(3), latents=latents)
    assert len(result.applied) == 1, reasons(result.refused)
    assert_same(model, graph, args(1), args(5))


def test_rotary_positions_stay_in_front_of_the_call() -> None:
    def function(m, q, k, v):
        def rotated(x):
            half = DIM // 2
            return x * m.cos + torch.cat((-x[..., half:], x[..., :half]), -1) * m.sin

        return softmax(rotated(q) @ rotated(k).transpose(2, 3) / math.sqrt(DIM)) @ v

    angles = torch.outer(torch.arange(float(KEYS)), 0.5 ** torch.arange(float(DIM)))
    args = [qkv(b, rows=KEYS) for b in (3, 1, 6)]
    result, graph, model = fused(function, *args[0], cos=angles.cos(), sin=angles.sin())
    assert len(result.applied) == 1, reasons(result.refused)
    assert count(graph, aten.cat) == 2
    assert_same(model, graph, *args[1:])


def test_a_learned_bias_of_relative_positions_is_added_and_needs_no_guard() -> None:
    """T5's and Swin's: a table gathered by distance, permuted, added with the padding mask."""

    def function(m, q, k, v, shown):
        bias = F.embedding(m.distance, m.table).permute(2, 0, 1).unsqueeze(0)
        return softmax(q @ k.mT + (bias + (1.0 - shown.float()) * -1e9)) @ v

    distance = (torch.arange(KEYS)[None] - torch.arange(QUERIES)[:, None]).clamp(-3, 3) + 3
    table = torch.randn(7, HEADS, generator=torch.Generator().manual_seed(6))
    result, graph, model = fused(function, *qkv(3), kept(3), distance=distance, table=table)
    assert len(result.applied) == 1, reasons(result.refused)
    assert count(graph, aten.amax) == 0
    assert_same(model, graph, (*qkv(1), kept(1)), (*qkv(5), kept(5)))


def test_windows_with_a_mask_of_each_window_as_in_swin() -> None:
    windows = 4

    def function(m, q, k, v):
        scores = q @ k.transpose(-2, -1) + m.bias
        scores = scores.view(-1, windows, HEADS, QUERIES, QUERIES) + m.mask[None, :, None]
        return softmax(scores.view(-1, HEADS, QUERIES, QUERIES)) @ v

    draw = torch.Generator().manual_seed(5)
    bias = torch.randn(1, HEADS, QUERIES, QUERIES, generator=draw)
    mask = torch.where(torch.rand(windows, QUERIES, QUERIES, generator=draw) > 0.4, 0.0, -100.0)
    model = Calls(function, bias=bias, mask=mask)
    args = [qkv(windows * n, columns=QUERIES) for n in (3, 1, 2)]
    result, graph = rewrite(export(model, *args[0]), "fuse_attention")
    assert len(result.applied) == 1, reasons(result.refused)
    assert_same(model, graph, args[0])

    one = Calls(lambda m, *x: function(m, *(t.flatten(0, 1) for t in x)), bias=bias, mask=mask)
    split = [tuple(t.unflatten(0, (-1, windows)) for t in given) for given in args]
    result, graph = rewrite(export(one, *split[0], dims={"args": ({0: BATCH},) * 3}), "fuse_attention")
    assert len(result.applied) == 1, reasons(result.refused)
    assert_same(one, graph, *split)


@pytest.mark.parametrize("value", [-torch.inf, -1e9])
def test_weights_that_are_set_to_0_where_the_scores_were_hidden(value: float) -> None:
    """WeNet's and ESPnet's: a row that is hidden entirely gives 0, on every engine."""

    def function(m, q, k, v, shown):
        hidden = shown.eq(0)
        weights = softmax((q @ k.mT + m.bias).masked_fill(hidden, value)).masked_fill(hidden, 0.0)
        return weights @ v

    bias = torch.randn(HEADS, QUERIES, KEYS, generator=torch.Generator().manual_seed(1))
    result, graph, model = fused(function, *qkv(3), kept(3), bias=bias)
    assert len(result.applied) == 1, reasons(result.refused)
    shown = kept(4)
    shown[2] = False
    assert_same(model, graph, (*qkv(4), shown), (*qkv(1), kept(1)))
    assert graph.module(*qkv(4), shown)[2].abs().max() == 0


CAUSAL = {
    "triu of -inf": lambda m, s: s + torch.full((s.shape[-1], s.shape[-1]), -torch.inf).triu(1),
    "tril of ones": lambda m, s: s.masked_fill(torch.ones(s.shape[-1], s.shape[-1]).tril() == 0, -torch.inf),
    "triu of truth": lambda m, s: s.masked_fill(torch.ones(s.shape[-1], s.shape[-1], dtype=torch.bool).triu(1), -1e9),
    "corner of a buffer": lambda m, s: s.masked_fill(m.bias[:, :, : s.shape[-1], : s.shape[-1]] == 0, -torch.inf),
    "where": lambda m, s: torch.where(m.bias[0, 0, : s.shape[-1], : s.shape[-1]].bool(), s, -1e9),
}
NOT_CAUSAL = {
    "one above": lambda m, s: s + torch.full((s.shape[-1], s.shape[-1]), -torch.inf).triu(2),
    "one below": lambda m, s: s.masked_fill(torch.ones(s.shape[-1], s.shape[-1]).tril(-1) == 0, -1e9),
    "hides the lower half": lambda m, s: s.masked_fill(torch.ones(s.shape[-1], s.shape[-1]).tril(0) == 1, -1e9),
    "from the second row on": lambda m, s: s.masked_fill(
        m.bias[:, :, 1 : s.shape[-1] + 1, : s.shape[-1]] == 0, -torch.inf
    ),
    "weak": lambda m, s: s + torch.full((s.shape[-1], s.shape[-1]), -3.0).triu(1),
}


@pytest.mark.parametrize("case", [*CAUSAL, *NOT_CAUSAL])
def test_a_lower_triangle_of_any_length_becomes_causal_and_nothing_else_does(case: str) -> None:
    mask = {**CAUSAL, **NOT_CAUSAL}[case]

    def function(m, q, k, v):
        heads = [x.transpose(1, 2) for x in (q, k, v)]
        return softmax(mask(m, heads[0] @ heads[1].mT / 3)) @ heads[2]

    def args(batch, time):
        return tensors(batch, *[(time, HEADS, DIM)] * 3)

    model = Calls(function, bias=torch.ones(1, 1, 64, 64).tril())
    exported = export(model, *args(3, 6), dims={"args": ({0: BATCH, 1: TIME},) * 3})
    result, graph = rewrite(exported, "fuse_attention")
    assert len(result.applied) == 1, reasons(result.refused)
    assert the_call(graph)["is_causal"] is (case in CAUSAL)
    assert_same(model, graph, args(1, 2), args(2, 11))
