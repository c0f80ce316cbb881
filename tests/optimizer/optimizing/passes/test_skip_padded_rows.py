"""Layers in front of a mask compute the rows that it shows, in many spellings and for every mask; or it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
import torch.nn.functional as F

from optimizer.compiling.bfloat16 import to_bfloat16
from optimizer.compiling.onnx_export import export_onnx
from optimizer.optimizing.base import run_passes
from optimizer.optimizing.graph import Graph
from optimizer.spec import KeepFloat32
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
from tests.optimizer.optimizing.truth import Calls, assert_same

aten = torch.ops.aten
LENGTH, WIDTH, HIDDEN = 7, 4, 5
ALL = {"min_work": 1}
# of samples without a row, with one, with all; and of several samples
LENGTHS = ([0], [1], [LENGTH], [0, 0, 0], [LENGTH] * 4, [3, 0, LENGTH, 1, 5])


def weights() -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    rows = {"p": (LENGTH, WIDTH), "table": (9, WIDTH), "lowest": (), "w3": (WIDTH, HIDDEN), "w4": (HIDDEN, 4 * WIDTH)}
    shapes = {
        "w1": (HIDDEN, WIDTH),
        "b1": (HIDDEN,),
        "w2": (1, HIDDEN),
        "b2": (1,),
        "g": (HIDDEN,),
        **rows,
    }
    return {name: torch.randn(shape, generator=draw) for name, shape in shapes.items()}


def args(lengths: list[int]) -> tuple[torch.Tensor, ...]:
    """(keys, query, lengths)"""
    draw = torch.Generator().manual_seed(len(lengths) + sum(lengths))
    batch = len(lengths)
    keys = torch.randn(batch, LENGTH, WIDTH, generator=draw)
    return keys, torch.randn(batch, WIDTH, generator=draw), torch.tensor(lengths)


def masked(function: Any, dtype: torch.dtype = torch.float32, **options: int) -> tuple[Any, Graph, Calls]:
    model = Calls(function, **{name: value.to(dtype) for name, value in weights().items()})
    keys, query, lengths = args([2, LENGTH, 4])
    given = (keys.to(dtype), query.to(dtype), lengths)
    exported = export(model, *given, dims={"args": ({0: BATCH},) * 3})
    result, graph = rewrite(exported, "skip_padded_rows", **(options or ALL))
    return result, graph, model


def shown(lengths: torch.Tensor) -> torch.Tensor:
    return torch.arange(LENGTH)[None] < lengths[:, None]


def layers(m: Any, x: torch.Tensor) -> torch.Tensor:
    return F.linear(torch.relu(F.linear(x, m.w1, m.b1)), m.w2, m.b2)


def weighted(scores: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    return (torch.softmax(scores, -1)[..., None] * keys).sum(1)


def scores(m: Any, k: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    return layers(m, k * q[:, None]).squeeze(-1)


def flattened(m: Any, k: torch.Tensor, q: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    rows = layers(m, k.reshape(-1, WIDTH)).view(k.shape[0], LENGTH)
    return rows.masked_fill(~shown(n), -1e9).softmax(-1)


def flattened_and_added(m: Any, k: torch.Tensor, q: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    rows = q[:, None].expand_as(k).reshape(-1, WIDTH)
    out = torch.addmm(m.b1, k.reshape(-1, WIDTH) - rows, m.w1.t())
    return (out @ m.w2.t()).view(-1, LENGTH).masked_fill(~shown(n), -1e9).softmax(-1)


def in_heads(m: Any, k: torch.Tensor, q: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    heads = F.linear(k, m.w1[:4]).view(k.shape[0], LENGTH, 2, 2)
    return heads.softmax(-1).masked_fill(~shown(n)[..., None, None], 0.0).sum((1, 3))


SPELLINGS = {
    "masked_fill": lambda m, k, q, n: weighted(scores(m, k, q).masked_fill(~shown(n), -1e9), k),
    "a mask of what is hidden": lambda m, k, q, n: weighted(
        scores(m, k, q).masked_fill(torch.arange(LENGTH)[None] >= n[:, None], -1e9), k
    ),
    "minus infinity": lambda m, k, q, n: weighted(scores(m, k, q).masked_fill(~shown(n), -torch.inf), k),
    "where": lambda m, k, q, n: weighted(torch.where(shown(n), scores(m, k, q), -1e9), k),
    "where, the other way round": lambda m, k, q, n: weighted(torch.where(~shown(n), -1e9, scores(m, k, q)), k),
    "where with a tensor": lambda m, k, q, n: weighted(
        torch.where(shown(n), scores(m, k, q), m.lowest), k
    ),
    "pooled": lambda m, k, q, n: torch.where(shown(n)[..., None], F.gelu(F.linear(k, m.w1, m.b1)), 0.0).sum(1),
    "the query joined": lambda m, k, q, n: F.linear(
        torch.cat([q[:, None].expand(-1, LENGTH, -1), k[..., :1]], -1), m.w1.t()
    )[..., 0].masked_fill(~shown(n), -1e9).softmax(-1),
    "positions added": lambda m, k, q, n: layers(m, k + m.p).squeeze(-1).masked_fill(~shown(n), -1e9).softmax(-1),
    "a norm and a sum": lambda m, k, q, n: (
        F.layer_norm(F.linear(k, m.w1), [HIDDEN], m.g) * m.g
    ).sum(-1).masked_fill(~shown(n), -1e9).softmax(-1),
    "flattened": flattened,
    "flattened, with addmm": flattened_and_added,
    "in heads": in_heads,
    "a residual": lambda m, k, q, n: (
        lambda h: (h + torch.relu(h)).mean(-1, keepdim=True)
    )(F.linear(k, m.w1)).squeeze(-1).masked_fill(~shown(n), -1e9).softmax(-1),
    "kept as it is": lambda m, k, q, n: F.linear(k, m.w1).masked_fill(~shown(n)[..., None], 3.0),
}  # fmt: skip


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_layers_are_computed_for_valid_rows_and_give_the_same_results(spelling: str) -> None:
    result, graph, model = masked(SPELLINGS[spelling])
    assert len(result.applied) == 1 and not result.refused, reasons(result.refused)
    assert count(graph, aten.nonzero) == 1
    for node in graph.operations(aten.linear, aten.addmm, aten.layer_norm):
        assert len(graph.shape(node)) == 2, "rows and features"
        assert str(graph.shape(node)[0]).startswith("u"), "as many rows as there are at run time"
    assert_same(model, graph, *map(args, LENGTHS))


def test_the_answer_is_that_of_the_original_in_float64_too() -> None:
    result, graph, model = masked(SPELLINGS["masked_fill"], torch.float64)
    assert len(result.applied) == 1
    for lengths in LENGTHS:
        keys, query, given = args(lengths)
        assert_same(model, graph, (keys.double(), query.double(), given), tolerance=1e-12)


def test_it_says_how_much_of_a_row_is_left_out() -> None:
    result, _, _ = masked(SPELLINGS["masked_fill"])
    # 4 x 5 and 5 x 1
    assert reasons(result.applied) == ["2 layers, 25 multiply-adds a row, for the rows that lt shows"]


def test_what_stands_in_the_padding_does_not_matter_and_what_stands_in_a_row_does() -> None:
    _, graph, model = masked(SPELLINGS["masked_fill"])
    keys, query, lengths = args([3, 0, LENGTH])
    keys[0, 3:], keys[1] = torch.nan, torch.inf
    expected, got = (run(keys[..., :], query, lengths) for run in (model, graph.module))
    torch.testing.assert_close(got, expected, equal_nan=True)
    keys[0, 2] = torch.nan
    assert graph.module(keys, query, lengths)[0].isnan().all(), "a NaN in a row that counts is handed on"


def test_scores_of_rows_without_a_valid_place_are_the_number_itself() -> None:
    _, graph, _ = masked(lambda m, k, q, n: scores(m, k, q).masked_fill(~shown(n), -5.0))
    assert torch.equal(graph.module(*args([0, 0])), torch.full((2, LENGTH), -5.0))


def test_a_mask_of_the_whole_batch_leaves_rows_of_each_sample() -> None:
    def function(m, k, q, n):
        mask = torch.arange(LENGTH)[None] < n[:1, None]
        return weighted(scores(m, k, q).masked_fill(~mask, -1e9), k)

    result, graph, model = masked(function)
    assert len(result.applied) == 1
    (wide, *_), (narrow, *_) = [[str(s) for s in graph.shape(n)] for n in graph.operations(aten.linear)]
    assert wide.startswith("s") and narrow.startswith("s"), "samples stay apart"
    assert_same(model, graph, args([3, 1, 5]), args([0, 2]), args([LENGTH]))


def test_one_mask_for_two_values_is_searched_once() -> None:
    def function(m, k, q, n):
        mask = ~shown(n)
        return layers(m, k).squeeze(-1).masked_fill(mask, -1e9), F.linear(k, m.w1).sum(-1).masked_fill(mask, 0.0)

    result, graph, model = masked(function)
    assert len(result.applied) == 2 and count(graph, aten.nonzero) == 1
    assert_same(model, graph, *map(args, LENGTHS))


def by_own_matrix(m: Any, k: torch.Tensor, q: torch.Tensor, n: torch.Tensor, own: Any = None) -> torch.Tensor:
    """A matrix of each sample's own, as `split_target_attention` leaves it."""
    own = torch.addcmul(m.w1.t(), q.unsqueeze(1).transpose(1, 2), m.w3) if own is None else own
    return F.linear(torch.relu(torch.bmm(k, own)), m.w2).squeeze(-1).masked_fill(~shown(n), -1e9).softmax(-1)


def test_a_matrix_of_each_samples_own_is_taken_apart_into_constants_of_all_rows() -> None:
    result, graph, model = masked(by_own_matrix)
    assert reasons(result.applied) == ["2 layers, 25 multiply-adds a row, for the rows that lt shows"]
    assert count(graph, aten.bmm) == 0
    first, _ = graph.operations(aten.linear)
    assert torch.equal(graph.constant_value(first.args[1]), torch.cat([model.w1, model.w3.t()], 1))
    assert_same(model, graph, *map(args, LENGTHS))


@pytest.mark.parametrize(
    "own",
    [
        lambda m, q: torch.addcmul(m.w1.t(), q.unsqueeze(1).transpose(1, 2), m.w3, value=2.0),
        lambda m, q: torch.addcmul(m.w1.t(), q[:, :, None], m.w3),
        lambda m, q: torch.addcmul(q[:, :, None], q.unsqueeze(1).transpose(1, 2), m.w3),
    ],
    ids=["scaled", "another view", "no constant added"],
)
def test_a_product_with_another_matrix_of_each_samples_own_is_left_for_all_rows(own: Any) -> None:
    result, graph, model = masked(lambda m, k, q, n: by_own_matrix(m, k, q, n, own(m, q)))
    assert reasons(result.applied) == ["1 layers, 5 multiply-adds a row, for the rows that lt shows"]
    assert count(graph, aten.bmm) == 1
    assert_same(model, graph, *map(args, LENGTHS))


NEAR_MISSES = {
    "needed elsewhere too (2 users)": lambda m, k, q, n: (
        lambda s: s.masked_fill(~shown(n), -1e9).softmax(-1) + s
    )(scores(m, k, q)),
    "the softmax runs over the rows": lambda m, k, q, n: scores(m, k, q).softmax(-1).masked_fill(~shown(n), 0.0),
    "aten.cumsum.default is not known to work row by row": lambda m, k, q, n: scores(m, k, q).cumsum(-1).masked_fill(
        ~shown(n), 0.0
    ),
    "squeeze is needed elsewhere too": lambda m, k, q, n: (
        lambda s: (s - s.amax(-1, keepdim=True)).masked_fill(~shown(n), 0.0)
    )(scores(m, k, q)),
    "do not stand side by side": lambda m, k, q, n: F.linear(
        k[:, None] * q[:, None, None], m.w1
    ).masked_fill(~shown(n)[:, None, :, None], 0.0),
    "below min_work": lambda m, k, q, n: k.sum(-1).masked_fill(~shown(n), 0.0),
}  # fmt: skip


@pytest.mark.parametrize("reason", NEAR_MISSES)
def test_it_refuses_a_near_miss_with_the_reason(reason: str) -> None:
    result, graph, model = masked(NEAR_MISSES[reason])
    assert result.applied == []
    assert any(reason in r for r in reasons(result.refused)), reasons(result.refused)
    assert count(graph, aten.nonzero) == 0
    assert_same(model, graph, args([2, 3]))


def test_layers_that_something_else_needs_stay_and_those_behind_are_left_out() -> None:
    def function(m, k, q, n):
        hidden = torch.relu(F.linear(k, m.w1, m.b1))
        return F.linear(hidden, m.w2).squeeze(-1).masked_fill(~shown(n), -1e9), hidden

    result, graph, model = masked(function)
    assert reasons(result.applied) == ["1 layers, 5 multiply-adds a row, for the rows that lt shows"]
    assert_same(model, graph, *map(args, LENGTHS))


def test_masks_that_no_input_decides_and_masks_that_are_added_are_left_alone() -> None:
    result, _, _ = masked(lambda m, k, q, n: scores(m, k, q).masked_fill(torch.arange(LENGTH) > 2, 0.0))
    assert result.applied == result.refused == []
    result, _, _ = masked(lambda m, k, q, n: (scores(m, k, q) + (~shown(n)).float() * -1e9).softmax(-1))
    assert result.applied == result.refused == []


def test_active_dropout_is_not_done_row_by_row() -> None:
    def function(m, k, q, n):
        return F.dropout(scores(m, k, q), 0.5, training=True).masked_fill(~shown(n), 0.0)

    result, _, _ = masked(function)
    assert "dropout is active" in reasons(result.refused)[0]


def test_little_work_is_not_worth_it_by_default() -> None:
    result, _, _ = masked(SPELLINGS["masked_fill"], min_work=26)
    assert reasons(result.refused) == ["25 multiply-adds a row are computed row by row, below min_work 26"]


def test_the_rewritten_graph_exports_again_with_a_dynamic_batch_and_length(tmp_path: Path) -> None:
    def function(m, k, q, n):
        mask = torch.arange(k.shape[1])[None] < n[:, None]
        return weighted(scores(m, k, q).masked_fill(~mask, -1e9), k)

    model = Calls(function, **weights())
    exported = export(model, *args([2, LENGTH, 4]), dims={"args": ({0: BATCH, 1: TIME}, {0: BATCH}, {0: BATCH})})
    result, graph = rewrite(exported, "skip_padded_rows", **ALL)
    assert len(result.applied) == 1
    longer = (torch.randn(2, 11, WIDTH), torch.randn(2, WIDTH), torch.tensor([11, 4]))
    assert_equal_results(model, graph, *map(args, LENGTHS), longer)
    assert_loads_elsewhere(model, graph, args([5, 0]), tmp_path)


def test_a_product_with_a_mask_is_left_out_where_what_it_hides_is_a_number_for_every_input() -> None:
    def of_table(m, k, q, n):
        known = F.embedding((k[..., 0] > 0).long() * 8, m.table)
        return (layers(m, known) * shown(n).float()[..., None]).sum(1)

    result, graph, model = masked(of_table)
    assert reasons(result.applied) == ["2 layers, 25 multiply-adds a row, for the rows that ne_scalar shows"]
    assert_same(model, graph, *map(args, LENGTHS))


@pytest.mark.parametrize(
    "weigh",
    [
        lambda x, mask: x * mask[..., None],
        lambda x, mask: mask[..., None].float() * x,
        lambda x, mask: x * mask.to(x.dtype).unsqueeze(-1),
    ],
    ids=["a bool", "the mask in front", "a dimension after the cast"],
)
def test_a_product_that_may_hide_nan_is_refused(weigh: Any) -> None:
    result, graph, model = masked(lambda m, k, q, n: weigh(layers(m, k), shown(n)).sum(1))
    assert result.applied == []
    (reason,) = reasons(result.refused)
    assert reason.endswith("may be no number in the padding, and a product with 0 hands that on")
    assert_same(model, graph, args([2, 3]))


def test_a_product_of_activations_is_no_mask() -> None:
    result, _, _ = masked(lambda m, k, q, n: layers(m, k) * (k[..., :1] + 1).sigmoid())
    assert result.applied == result.refused == []


def test_rows_of_target_attention_are_computed_behind_its_split() -> None:
    """`[q, k, q-k, q*k]` into a layer, as DIN has it: split first, then for valid rows alone."""

    def function(m, k, q, n):
        query = q[:, None].expand(-1, LENGTH, -1)
        blocks = torch.cat([query, k, query - k, query * k], -1)
        return F.linear(torch.relu(F.linear(blocks, m.w4, m.b1)), m.w2).squeeze(-1).masked_fill(~shown(n), -1e9)

    model = Calls(function, **weights())
    exported = export(model, *args([2, LENGTH, 4]), dims={"args": ({0: BATCH},) * 3})
    graph = Graph.from_exported(exported)
    with torch.no_grad():
        split, skipped = run_passes(graph, [("split_target_attention", {}), ("skip_padded_rows", ALL)])
    assert reasons(split.applied)[0].startswith("batched: ")
    # 4 x 5 of weights of each sample's own, and 5 x 1
    assert reasons(skipped.applied) == ["2 layers, 25 multiply-adds a row, for the rows that lt shows"]
    assert count(graph, aten.bmm, aten.addcmul) == 0
    assert_same(model, graph, *map(args, LENGTHS))


def test_onnx_runtime_computes_the_rewritten_graph(tmp_path: Path) -> None:
    _, graph, model = masked(by_own_matrix)
    with torch.no_grad():
        path = export_onnx(graph.to_exported(), tmp_path)
    session = onnxruntime.InferenceSession(str(path))
    for lengths in LENGTHS:
        given = args(lengths)
        feeds = {i.name: t.numpy() for i, t in zip(session.get_inputs(), given, strict=True)}
        (got,) = session.run(None, feeds)
        torch.testing.assert_close(torch.from_numpy(got), model(*given), rtol=1e-5, atol=1e-5)


def test_a_rewritten_program_can_be_rewritten_again() -> None:
    """As int8 does it: an export asserts what is known of the number of rows."""
    _, graph, model = masked(SPELLINGS["masked_fill"])
    result, again = rewrite(graph.to_exported(), "remove_noops")
    assert result.refused == []
    assert_equal_results(model, again, args([3, 0, LENGTH]), args([0]))


def test_it_can_be_computed_in_bfloat16() -> None:
    _, graph, model = masked(SPELLINGS["masked_fill"])
    low = to_bfloat16(graph.to_exported(), KeepFloat32()).module()
    for lengths in ([0], [3, 0, LENGTH, 1, 5]):
        torch.testing.assert_close(low(*args(lengths)), model(*args(lengths)), rtol=0.1, atol=0.1)
