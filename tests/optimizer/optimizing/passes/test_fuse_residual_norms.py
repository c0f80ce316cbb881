"""Residual add + norm in its usual spellings becomes one operation with two outputs; near misses stay, with reasons."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import kernels
from tests.optimizer.optimizing.support import BATCH, assert_equal_results, count, export, reasons, rewrite
from tests.optimizer.optimizing.truth import Calls, assert_same

aten = torch.ops.aten
kernels.load()
ops = torch.ops.fuseworks
WIDTH = 9


def pair(batch: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(batch)
    return tuple(torch.randn(batch, 3, WIDTH, generator=draw).to(dtype) for _ in range(2))  # type: ignore[return-value]


def parameters(dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(5)
    return {name: torch.randn(WIDTH, generator=draw).to(dtype) for name in ("weight", "bias")}


def fused(function: Any, dtype: torch.dtype = torch.float32, **buffers: torch.Tensor) -> tuple[Any, Any, Calls]:
    model = Calls(function, **{**parameters(dtype), **buffers})
    exported = export(model, *pair(3, dtype), dims={"args": ({0: BATCH},) * 2})
    result, graph = rewrite(exported, "fuse_operations", kernels=["add_rms_norm", "add_layer_norm"])
    return result, graph, model


def llama(m: Any, t: torch.Tensor) -> torch.Tensor:
    x = t.to(torch.float32)
    x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    return m.weight * x.to(t.dtype)


RMS = {
    "rms_norm": (lambda m, t: F.rms_norm(t, (WIDTH,), m.weight, 1e-6), 1e-6),
    "rms_norm with its own epsilon": (lambda m, t: F.rms_norm(t, (WIDTH,), m.weight), torch.finfo(torch.float32).eps),
    "rms_norm without a weight": (lambda m, t: F.rms_norm(t, (WIDTH,), None, 1e-3), 1e-3),
    "as Llama does": (llama, 1e-6),
    "x * x": (lambda m, t: t * torch.rsqrt((t * t).mean(-1, keepdim=True) + 1e-5) * m.weight, 1e-5),
    "square, dim by number": (lambda m, t: m.weight * (t * torch.rsqrt(t.square().mean(2, True) + 0.1)), 0.1),
    "epsilon first": (lambda m, t: t * torch.rsqrt(1e-6 + t.pow(2).mean(-1, keepdim=True)) * m.weight, 1e-6),
    "over sqrt": (lambda m, t: t / torch.sqrt(t.pow(2).mean(-1, keepdim=True) + 1e-6) * m.weight, 1e-6),
    "times 1 / sqrt": (lambda m, t: t * (1.0 / torch.sqrt(t.pow(2).mean(-1, keepdim=True) + 1e-6)) * m.weight, 1e-6),
    "pow(-0.5)": (lambda m, t: (t.pow(2).mean(-1, keepdim=True) + 1e-6).pow(-0.5) * t * m.weight, 1e-6),
    "over pow(0.5)": (lambda m, t: t / (t.pow(2).mean(-1, keepdim=True) + 1e-6) ** 0.5, 1e-6),
}


def by_hand(m: Any, t: torch.Tensor) -> torch.Tensor:
    mean = t.mean(-1, keepdim=True)
    variance = (t - mean).pow(2).mean(-1, keepdim=True)
    return m.weight * ((t - mean) / torch.sqrt(variance + 1e-12)) + m.bias


def by_hand_once(m: Any, t: torch.Tensor) -> torch.Tensor:
    centred = t - t.mean(-1, keepdim=True)
    return centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + 1e-5) * m.weight + m.bias


def by_var(m: Any, t: torch.Tensor) -> torch.Tensor:
    variance = t.var(-1, unbiased=False, keepdim=True)
    return (t - t.mean(-1, keepdim=True)) / torch.sqrt(variance + 1e-5)


LAYER = {
    "layer_norm": (lambda m, t: F.layer_norm(t, (WIDTH,), m.weight, m.bias, 1e-5), 1e-5),
    "without parameters": (lambda m, t: F.layer_norm(t, (WIDTH,), None, None, 1e-3), 1e-3),
    "with a weight alone": (lambda m, t: F.layer_norm(t, (WIDTH,), m.weight, None, 1e-5), 1e-5),
    "by hand": (by_hand_once, 1e-5),
    "by var": (by_var, 1e-5),
}


@pytest.mark.parametrize("spelling", [*RMS, *LAYER])
def test_the_add_and_the_norm_become_one_operation_with_two_outputs(spelling: str) -> None:
    norm, eps = {**RMS, **LAYER}[spelling]
    op = ops.add_rms_norm if spelling in RMS else ops.add_layer_norm
    result, graph, model = fused(lambda m, x, r: (lambda t: (norm(m, t), t * 2))(x + r))
    assert len(result.applied) == 1, reasons(result.refused)
    (call,) = graph.operations(op)
    assert call.args[-1] == pytest.approx(eps, rel=1e-9), "another epsilon is another function"
    rest = [n for n in graph.operations() if not graph.is_op(n, aten.to)]  # Llama's first cast, without effect here
    assert len(rest) == 4, "the operation, its two outputs and what follows"
    assert "its 2 results go on to 2" in result.applied[0].reason
    assert_same(model, graph, pair(1), pair(7))


def test_a_doubled_subtraction_is_one_once_common_expressions_are_merged() -> None:
    from optimizer.optimizing.base import run_passes
    from optimizer.optimizing.graph import Graph

    model = Calls(lambda m, x, r: by_hand(m, x + r), **parameters())
    graph = Graph.from_exported(export(model, *pair(3), dims={"args": ({0: BATCH},) * 2}))
    run_passes(graph, [("eliminate_common_subexpressions", {}), ("fuse_operations", {})])
    assert count(graph, ops.add_layer_norm) == 1
    assert_same(model, graph, pair(5))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_is_fused_with_its_float32_casts(dtype: torch.dtype) -> None:
    result, graph, model = fused(lambda m, x, r: llama(m, x + r), dtype)
    assert len(result.applied) == 1, reasons(result.refused)
    assert count(graph, aten.to) == 0
    assert_same(model, graph, pair(5, dtype), tolerance=4e-2)


def test_a_float32_weight_behind_a_bfloat16_norm_stays_outside() -> None:
    weight = torch.linspace(-1, 1, WIDTH)
    result, graph, model = fused(lambda m, x, r: llama(m, x + r), torch.bfloat16, weight=weight)
    assert len(result.applied) == 1
    (call,) = graph.operations(ops.add_rms_norm)
    assert call.args[2] is None
    assert_same(model, graph, pair(3, torch.bfloat16), tolerance=4e-2)


def test_a_chain_of_residual_blocks_is_fused_throughout() -> None:
    def function(m, x, r):
        x = x + r
        for _ in range(3):
            x = x + F.rms_norm(x, (WIDTH,), m.weight, 1e-6).sin()
        return F.rms_norm(x, (WIDTH,), m.weight, 1e-6)

    result, graph, model = fused(function)
    assert count(graph, ops.add_rms_norm) == len(result.applied) == 4
    assert_same(model, graph, pair(1), pair(5))


def test_the_rewritten_graph_exports_again_with_its_dynamic_batch() -> None:
    _, graph, model = fused(lambda m, x, r: F.layer_norm(x + r, (WIDTH,), m.weight, m.bias))
    assert_equal_results(model, graph, pair(1), pair(7))


REFUSED = {
    "no residual add": lambda m, x, r: F.rms_norm(x.sin(), (WIDTH,), m.weight, 1e-6),
    "no residual add feeds": lambda m, x, r: F.layer_norm(x * r, (WIDTH,)),
    "different shapes": lambda m, x, r: F.layer_norm(x + r[:, :1], (WIDTH,)),
    "adds a number": lambda m, x, r: F.layer_norm(x + 2, (WIDTH,)),
    "scales its second operand": lambda m, x, r: F.layer_norm(torch.add(x, r, alpha=2), (WIDTH,)),
    "more than the last dimension": lambda m, x, r: F.layer_norm(x + r, (3, WIDTH)),
    "more than the last": lambda m, x, r: F.rms_norm(x + r, (3, WIDTH)),
    "computed in torch.float64": lambda m, x, r: (lambda t: t * torch.rsqrt(t.pow(2).mean(-1, True) + 1e-6))(
        (x + r).double()
    ).float(),
    "needed by": lambda m, x, r: (lambda t: (lambda q: t * torch.rsqrt(q.mean(-1, True) + 1e-6) + q.sum())(t.pow(2)))(
        x + r
    ),
    "unbiased": lambda m, x, r: (lambda t: (t - t.mean(-1, True)) / torch.sqrt(t.var(-1, keepdim=True) + 1e-6))(x + r),
    "other users": lambda m, x, r: (lambda t: (lambda s: t * s + s)(torch.rsqrt(t.pow(2).mean(-1, True) + 1e-6)))(
        x + r
    ),
    "no epsilon": lambda m, x, r: (lambda t: t * torch.rsqrt(t.pow(2).mean(-1, True)))(x + r),
    "computed only after": lambda m, x, r: (lambda t: F.rms_norm(t, (WIDTH,), t[0, 0], 1e-6))(x + r),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_it_refuses_a_near_miss_with_the_reason(reason: str) -> None:
    result, graph, model = fused(REFUSED[reason])
    assert result.applied == []
    assert any(reason in r for r in reasons(result.refused)), reasons(result.refused)
    assert count(graph, ops.add_rms_norm, ops.add_layer_norm) == 0
    assert_same(model, graph, pair(2))


PASSED_OVER = {
    "over another dimension": lambda m, x, r: (lambda t: t * torch.rsqrt(t.pow(2).mean(1, keepdim=True) + 1e-6))(x + r),
    "a cube": lambda m, x, r: (lambda t: t * torch.rsqrt(t.pow(3).mean(-1, keepdim=True) + 1e-6))(x + r),
    "of something else": lambda m, x, r: x * torch.rsqrt((x + r).pow(2).mean(-1, keepdim=True) + 1e-6),
    "sum, not mean": lambda m, x, r: (lambda t: t * torch.rsqrt(t.pow(2).sum(-1, keepdim=True) + 1e-6))(x + r),
    "a scaled epsilon": lambda m, x, r: (
        lambda t: t * torch.rsqrt(torch.add(t.pow(2).mean(-1, keepdim=True), 1e-3, alpha=2))
    )(x + r),
}


@pytest.mark.parametrize("case", PASSED_OVER)
def test_what_is_no_norm_stays_as_it_is(case: str) -> None:
    result, graph, model = fused(PASSED_OVER[case])
    assert result.applied == []
    assert_same(model, graph, pair(2))


def test_a_sum_that_is_written_in_place_later_is_left_alone() -> None:
    def function(m, x, r):
        total = x + r
        view = total[:, :1]
        normed = F.layer_norm(total, (WIDTH,))
        view.add_(1)
        return normed, total

    result, graph, model = fused(function)
    assert result.applied == []
    assert_same(model, graph, pair(2))
