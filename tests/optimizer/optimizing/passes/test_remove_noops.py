"""What changes nothing goes; what moves memory, keeps outputs apart or is written in place stays."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.optimizer.optimizing.support import BATCH, assert_equal_results, count, export, reasons, rewrite
from tests.optimizer.optimizing.truth import Calls, assert_same

aten = torch.ops.aten


def inputs(batch: int) -> tuple[torch.Tensor]:
    return (torch.randn(batch, 4, 6, generator=torch.Generator().manual_seed(batch)),)


def cleaned(function: Any, dtype: torch.dtype = torch.float32, **buffers: torch.Tensor) -> tuple[Any, Any, Calls]:
    model = Calls(function, **buffers)
    exported = export(model, inputs(3)[0].to(dtype), dims={"args": ({0: BATCH},)})
    result, graph = rewrite(exported, "remove_noops")
    return result, graph, model


GONE = {
    "cast to the same dtype": lambda _, x: x.sin().to(torch.float32).cos(),
    "float()": lambda _, x: x.sin().float().cos(),
    "type_as": lambda _, x: x.sin().type_as(x).cos(),
    "clone": lambda _, x: x.sin().clone().cos(),
    "detach": lambda _, x: x.sin().detach().cos(),
    "alias": lambda _, x: torch.ops.aten.alias(x.sin()).cos(),
    "view of the same shape": lambda _, x: x.sin().view(x.shape[0], 4, 6).cos(),
    "reshape with -1": lambda _, x: x.sin().reshape(-1, 4, 6).cos(),
    "expand to the same shape": lambda _, x: x.sin().expand(-1, 4, 6).cos(),
    "slice of everything": lambda _, x: x.sin()[:, :, 0:].cos(),
    "slice to the size": lambda _, x: x.sin()[:, :, :6].cos(),
    "permute in order": lambda _, x: x.sin().permute(0, 1, 2).cos(),
    "permute and back": lambda _, x: x.sin().permute(1, 2, 0).permute(2, 0, 1).cos(),
    "transpose twice": lambda _, x: x.sin().transpose(1, 2).transpose(-1, -2).cos(),
    "transpose and permute": lambda _, x: x.sin().transpose(1, 2).permute(0, 2, 1).cos(),
    "transpose of one dimension": lambda _, x: x.sin().transpose(1, 1).cos(),
    "flatten and unflatten": lambda _, x: x.sin().flatten(1).unflatten(1, (4, 6)).cos(),
    "unsqueeze and squeeze": lambda _, x: x.sin().unsqueeze(1).squeeze(1).cos(),
    "dropout in evaluation": lambda _, x: F.dropout(x.sin(), 0.5, False).cos(),
    "dropout of nothing": lambda _, x: F.dropout(x.sin(), 0.0, True).cos(),
    "add 0": lambda _, x: (x.sin() + 0).cos(),
    "take 0 off": lambda _, x: (x.sin() - 0.0).cos(),
    "times 1": lambda _, x: (1 * x.sin()).cos(),
    "over 1": lambda _, x: (x.sin() / 1).cos(),
    "one tensor joined": lambda _, x: torch.cat([x.sin()], 1).cos(),
    "all at once": lambda _, x: F.dropout((x.sin().float() * 1.0)[:, :].contiguous(), 0.1, False).cos(),
    "cast to double and back": lambda _, x: x.sin().double().float().cos(),
    "cast to double, copied and back": lambda _, x: x.sin().to(torch.float64).clone().to(torch.float32).cos(),
}


STAYS = {
    "cast to bfloat16 and back": lambda _, x: x.sin().bfloat16().float().cos(),
    "cast to integers and back": lambda _, x: x.sin().long().float().cos(),
    "cast to a truth and back": lambda _, x: x.sin().bool().float().cos(),
    "cast to double, then to integers": lambda _, x: x.sin().double().int().abs(),
    "cast to another dtype": lambda _, x: x.sin().to(torch.float64).cos(),
    "contiguous of what is transposed": lambda _, x: x.sin().transpose(1, 2).contiguous().cos(),
    "a real permutation": lambda _, x: x.sin().permute(0, 2, 1).cos(),
    "a part": lambda _, x: x.sin()[:, :, 1:].cos(),
    "every second": lambda _, x: x.sin()[:, :, ::2].cos(),
    "expand": lambda _, x: x.sin()[:, :1].expand(-1, 4, -1).cos(),
    "add 1": lambda _, x: (x.sin() + 1).cos(),
    "times 0": lambda _, x: (x.sin() * 0).cos(),
    "0 less x": lambda _, x: (0 - x.sin()).cos(),
    "2 over x": lambda _, x: (2 / x.sin()).cos(),
    "floor over 1": lambda _, x: torch.div(x.sin(), 1, rounding_mode="floor").cos(),
    "add 0 with promotion": lambda m, x: (m.counts + 0.0).sum() + x.sin().cos(),
    "add 0 that broadcasts": lambda m, x: (x.sin() + m.zeros).cos(),
    "two tensors joined": lambda _, x: torch.cat([x.sin(), x], 1).cos(),
    "a view that regroups": lambda _, x: x.sin().view(x.shape[0], 6, 4).cos(),
}


@pytest.mark.parametrize("case", STAYS)
def test_it_stays(case: str) -> None:
    buffers = {"counts": torch.arange(3), "zeros": torch.zeros(2, 1, 1, 1)}
    result, graph, model = cleaned(STAYS[case], **buffers)
    assert result.applied == []
    assert result.nodes_before == result.nodes_after
    assert_same(model, graph, inputs(2), tolerance=0)


CAST_ONCE = {
    "through float32": (torch.bfloat16, lambda x: x.float().double(), torch.float64),
    "through double": (torch.float32, lambda x: x.double().bfloat16(), torch.bfloat16),
    "integers through longer ones": (torch.int8, lambda x: x.int().short(), torch.int16),
    "short integers through float32": (torch.int16, lambda x: x.float().double(), torch.float64),
    "a truth through integers": (torch.bool, lambda x: x.long().float(), torch.float32),
}


@pytest.mark.parametrize("case", CAST_ONCE)
def test_a_cast_through_a_wider_dtype_is_one_cast(case: str) -> None:
    dtype, function, last = CAST_ONCE[case]
    model = Calls(lambda _, x: function(x).neg())
    values = (inputs(3)[0] * 9).to(dtype)
    result, graph = rewrite(export(model, values), "remove_noops")
    (cast,) = graph.operations(aten.to)
    assert graph.dtype(cast) == last
    assert "directly, without" in result.applied[0].reason
    assert_same(model, graph, (values,), tolerance=0)


CAST_TWICE = {
    "through what rounds": (torch.float32, lambda x: x.bfloat16().double()),
    "half through bfloat16": (torch.float16, lambda x: x.bfloat16().float()),
    "bfloat16 through half": (torch.bfloat16, lambda x: x.half().float()),
    "long integers through float32": (torch.int32, lambda x: x.float().double()),
    "integers through unsigned ones": (torch.int8, lambda x: x.to(torch.uint8).float()),
}


@pytest.mark.parametrize("case", CAST_TWICE)
def test_a_cast_that_loses_something_stays(case: str) -> None:
    dtype, function = CAST_TWICE[case]
    model = Calls(lambda _, x: function(x).neg())
    values = (inputs(3)[0] * 9).to(dtype)
    result, graph = rewrite(export(model, values), "remove_noops")
    assert result.applied == []
    assert count(graph, aten.to) == 2
    assert_same(model, graph, (values,), tolerance=0)


def test_two_permutations_become_one() -> None:
    result, graph, model = cleaned(lambda _, x: x.sin().permute(0, 2, 1).transpose(0, 1).cos())
    assert count(graph, aten.permute) == 1
    assert count(graph, aten.transpose) == 0
    assert "one permutation in place of two" in result.applied[0].reason
    assert_same(model, graph, inputs(5), tolerance=0)


def test_of_a_chain_of_views_the_last_is_left() -> None:
    result, graph, model = cleaned(lambda _, x: x.sin().flatten(1).view(-1, 2, 12).unsqueeze(1).view(-1, 8, 3).cos())
    assert len(graph.operations()) == 3
    assert len(result.applied) >= 2
    assert_same(model, graph, inputs(1), inputs(5), tolerance=0)


def test_a_view_of_a_transposed_tensor_still_works_when_its_copy_is_gone() -> None:
    _, graph, model = cleaned(lambda _, x: x.sin().transpose(1, 2).contiguous().clone().view(-1, 24).cos())
    assert count(graph, aten.clone) == 0
    assert count(graph, aten.contiguous) == 1
    assert_same(model, graph, inputs(5), tolerance=0)


def test_active_dropout_stays_and_is_named() -> None:
    result, graph, _ = cleaned(lambda _, x: F.dropout(x.sin(), 0.5, True).cos())
    assert count(graph, aten.dropout) == 1
    assert reasons(result.refused) == ["dropout is active (train=True)"]


def test_bfloat16_is_not_promoted_away() -> None:
    result, graph, model = cleaned(lambda _, x: (x.sin().float() * 1.0).exp().to(torch.bfloat16).cos(), torch.bfloat16)
    assert len(result.applied) == 1, "the product; the casts change the dtype"
    assert count(graph, aten.to) == 2
    assert_same(model, graph, (inputs(2)[0].bfloat16(),), tolerance=0)


KEPT_APART = {
    "a copy of an input": lambda _, x: x.clone(),
    "a view of a copy of an input": lambda _, x: x.clone()[:, 1:],
    "a copy of another output": lambda _, x: (lambda y: (y, y.clone()))(x.sin()),
    "a copy of a weight": lambda m, x: (m.weight.clone(), x.sin()),
    "an input times 1": lambda _, x: x * 1,
    "a cast copy": lambda _, x: x.to(torch.float32, copy=True),
}


@pytest.mark.parametrize("case", KEPT_APART)
def test_a_copy_that_keeps_an_output_apart_stays(case: str) -> None:
    result, graph, _ = cleaned(KEPT_APART[case], weight=torch.ones(2))
    assert result.applied == []
    assert "keeps an output apart" in result.refused[0].reason
    x = inputs(3)[0]
    graph.module.recompile()
    before = x.clone()
    out = graph.module(x)
    for tensor in out if isinstance(out, tuple) else (out,):
        assert tensor.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    assert torch.equal(x, before)


def test_a_copy_that_is_handed_back_goes_when_nothing_else_holds_the_memory() -> None:
    result, graph, model = cleaned(lambda _, x: x.sin().clone())
    assert len(result.applied) == 1
    assert_same(model, graph, inputs(2), tolerance=0)


def test_a_copy_taken_before_an_in_place_write_stays() -> None:
    def function(_, x):
        y = x.sin()
        view = y[:, :2]
        before = view.clone()
        view.mul_(3)
        return before.cos(), y

    result, graph, model = cleaned(function)
    assert result.applied == []
    assert any(n.target is aten.clone.default for n in graph.nodes)
    assert_same(model, graph, inputs(3), tolerance=0)


def test_the_rewritten_graph_exports_again_with_its_dynamic_batch() -> None:
    _, graph, model = cleaned(GONE["all at once"])
    assert_equal_results(model, graph, inputs(1), inputs(7))


OTHER_NUMBERS = {
    "read as integers, then flattened": lambda _, x: x.sin().view(torch.int32).view(-1).abs(),
    "read as integers, then regrouped": lambda _, x: x.sin().view(torch.int32).reshape(-1, 24).abs(),
    "flattened, read as integers, unflattened": lambda _, x: (
        x.sin().flatten(1).view(torch.int32).unflatten(1, (4, 6)).abs()
    ),
    "read as narrower numbers and back": lambda _, x: x.sin().view(torch.int16).view(-1, 48).view(torch.float32).cos(),
}


@pytest.mark.parametrize("case", OTHER_NUMBERS)
def test_bytes_that_are_read_as_another_dtype_are_no_regrouping(case: str) -> None:
    _, graph, model = cleaned(OTHER_NUMBERS[case])
    assert count(graph, aten.view.dtype) >= 1
    assert_same(model, graph, inputs(2), inputs(3))
