"""Lookups of one width become one: columns, separate ids, sequences, bags. Ids outside a table stay an error."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.optimizer.optimizing.support import (
    BATCH,
    assert_equal_results,
    assert_loads_elsewhere,
    count,
    export,
    reasons,
    rewrite,
)

aten = torch.ops.aten
ROWS, WIDTH = (9, 10, 11), 4


class Tables(nn.Module):
    def __init__(self, body, make=nn.Embedding, **options):
        super().__init__()
        torch.manual_seed(0)
        self.tables = nn.ModuleList(make(rows, WIDTH, **options) for rows in ROWS)
        self.other, self.narrow = nn.Embedding(5, WIDTH), nn.Embedding(7, 2)
        self.dense, self.body = nn.Linear(3, WIDTH), body

    def forward(self, ids):
        return self.body(self, ids)


def ids(batch, columns=3):
    return (torch.randint(0, min(ROWS), (batch, columns), generator=torch.Generator().manual_seed(batch)),)


def built(body, columns=3, **options):
    model = Tables(body, **options)
    return model, export(model, *ids(4, columns), dims=({0: BATCH},))


def looked_up(self, x):
    return [table(x[:, i]) for i, table in enumerate(self.tables)]


SPELLINGS = {
    "columns": lambda self, x: torch.cat(looked_up(self, x), 1),
    "unbind": lambda self, x: torch.cat([t(c) for t, c in zip(self.tables, x.unbind(1), strict=True)], 1),
    "split": lambda self, x: torch.cat([self.tables[i](c.squeeze(-1)) for i, c in enumerate(x.split(1, 1))], 1),
    "kept dimension, beside": lambda self, x: torch.cat([t(x[:, i : i + 1]) for i, t in enumerate(self.tables)], 1),
    "kept dimension, flat": lambda self, x: torch.cat([t(x[:, i : i + 1]) for i, t in enumerate(self.tables)], 2),
    "stack": lambda self, x: torch.stack(looked_up(self, x), 1),
    "negative axis": lambda self, x: torch.stack(looked_up(self, x), -2),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_columns_of_one_input_become_one_lookup_whose_result_is_the_concatenation(spelling):
    model, exported = built(SPELLINGS[spelling])
    result, graph = rewrite(exported, "merge_embedding_tables")
    assert reasons(result.applied) == [f"lookup {i} of 3 in one table of 30 rows, width 4" for i in (1, 2, 3)]
    assert count(graph, aten.embedding) == 1 and count(graph, aten.cat, aten.stack) == 0
    (lookup,) = graph.operations(aten.embedding)
    (shifted,) = graph.operations(aten.add.Tensor)
    assert shifted.args[0] is graph.inputs[0], "the ids are taken as they come"
    assert torch.equal(graph.constant_value(shifted.args[1]), torch.tensor([0, 9, 19]))
    assert graph.constant_value(lookup.args[0]).shape == (30, WIDTH)
    assert_equal_results(model, graph, ids(1), ids(7), again=spelling == "columns")


def test_a_stack_with_a_dense_vector_first_keeps_its_order():
    def body(self, x):
        vectors = [self.dense(x.float()), *looked_up(self, x)]
        return torch.stack(vectors, 1), torch.cat(vectors, 1)

    model, exported = built(body)
    _, graph = rewrite(exported, "merge_embedding_tables")
    assert_equal_results(model, graph, ids(1), ids(7))


def test_a_concatenation_in_another_order_than_the_columns_is_still_a_view():
    model, exported = built(lambda self, x: torch.cat(looked_up(self, x)[::-1], 1))
    _, graph = rewrite(exported, "merge_embedding_tables")
    assert count(graph, aten.cat) == 0 and count(graph, aten.index_select) == 1
    assert_equal_results(model, graph, ids(1), ids(7), again=False)


def test_results_used_one_by_one_are_views_of_the_merged_one():
    model, exported = built(lambda self, x: [e.sin() for e in looked_up(self, x)])
    _, graph = rewrite(exported, "merge_embedding_tables")
    assert count(graph, aten.select) == 3 and count(graph, aten.embedding) == 1
    assert_equal_results(model, graph, ids(1), ids(7), again=False)


def test_sequences_and_single_ids_are_merged_each_with_their_kind_and_share_one_table():
    def body(self, x):
        a, b, c = self.tables
        history = torch.cat([a(x), b(x.flip(1))], -1)
        return history, torch.cat([c(x[:, 2]), a(x[:, 0]), b(x[:, 1])], -1), self.narrow(x.clamp(max=6))

    model, exported = built(body, columns=5)
    result, graph = rewrite(exported, "merge_embedding_tables")
    assert count(graph, aten.embedding) == 3
    tables = {n.args[0] for n in graph.operations(aten.embedding)}
    assert len(tables) == 2, "the smaller group reads the table of the larger one"
    assert reasons(result.refused) == ["only 1 lookups of width 2 have ids of this shape"]
    assert_equal_results(model, graph, ids(1, 5), ids(7, 5))


def test_two_lookups_in_one_table_need_neither_a_copy_nor_offsets():
    model, exported = built(lambda self, x: torch.cat([self.tables[0](x[:, 0]), self.tables[0](x[:, 2])], 1))
    _, graph = rewrite(exported, "merge_embedding_tables")
    (lookup,) = graph.operations(aten.embedding)
    assert str(lookup.args[0].target) == "tables.0.weight" and count(graph, aten.where) == 0
    assert_equal_results(model, graph, ids(1), ids(7), again=False)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_one_length_become_one_bag_lookup(mode):
    def body(self, x):
        return torch.cat([t(x) for t in self.tables], 1)

    model, exported = built(body, columns=5, make=nn.EmbeddingBag, mode=mode)
    result, graph = rewrite(exported, "merge_embedding_tables")
    assert len(result.applied) == 3 and count(graph, aten.embedding_bag) == 1
    assert_equal_results(model, graph, ids(1, 5), ids(7, 5))


def test_bags_of_one_id_become_plain_lookups():
    def body(self, x):
        return torch.cat([t(x[:, i : i + 1]) for i, t in enumerate(self.tables)], 1)

    model, exported = built(body, make=nn.EmbeddingBag, mode="sum")
    _, graph = rewrite(exported, "merge_embedding_tables")
    assert count(graph, aten.embedding_bag) == 0 and count(graph, aten.embedding) == 1 and count(graph, aten.cat) == 0
    assert_equal_results(model, graph, ids(1), ids(7), again=False)


def test_an_id_outside_its_own_table_stays_an_error_and_reads_no_neighbour(tmp_path):
    model, exported = built(SPELLINGS["columns"])
    _, graph = rewrite(exported, "merge_embedding_tables")
    assert_loads_elsewhere(model, graph, ids(7), tmp_path)
    program = graph.to_exported().module()
    for column, bad in ((0, 9), (1, 10), (0, -1), (1, -1)):
        (wrong,) = ids(4)
        wrong[2, column] = bad
        with pytest.raises(IndexError):
            model(wrong)
        with pytest.raises(IndexError):
            program(wrong)
    _, unchecked = rewrite(exported, "merge_embedding_tables", check_ids=False)
    assert count(unchecked, aten.where) == 0
    assert_equal_results(model, unchecked, ids(7), again=False)


# ---- near misses ---------------------------------------------------------------------------------------------------


def test_max_bytes_leaves_out_what_does_not_fit_and_says_so():
    model, exported = built(SPELLINGS["columns"])
    result, graph = rewrite(exported, "merge_embedding_tables", max_bytes=(9 + 10) * WIDTH * 4)
    assert len(result.applied) == 2
    assert reasons(result.refused) == ["the merged table would exceed max_bytes 304 by this table's 176"]
    assert_equal_results(model, graph, ids(7), again=False)


def test_min_tables_refuses_a_smaller_group():
    _, exported = built(SPELLINGS["columns"])
    result, _ = rewrite(exported, "merge_embedding_tables", min_tables=4)
    assert not result.applied and reasons(result.refused) == ["only 3 lookups of width 4 have ids of this shape"] * 3


def test_it_refuses_a_computed_table():
    def body(self, x):
        return torch.cat([F.embedding(x[:, 0], self.tables[0].weight * 2), *looked_up(self, x)[1:]], 1)

    model, exported = built(body)
    result, graph = rewrite(exported, "merge_embedding_tables")
    assert reasons(result.refused) == ["the table is not constant"]
    assert len(result.applied) == 2
    assert_equal_results(model, graph, ids(7), again=False)


def test_it_refuses_tables_with_max_norm():
    _, exported = built(SPELLINGS["columns"], max_norm=1.0)
    result, _ = rewrite(exported, "merge_embedding_tables")
    assert not result.applied
    reason = "the table or the ids are written in place (max_norm renormalises the table)"
    assert reasons(result.refused) == [reason] * 3


def test_it_refuses_bags_that_leave_out_a_padding_id():
    def body(self, x):
        return torch.cat([t(x) for t in self.tables], 1)

    _, exported = built(body, columns=5, make=nn.EmbeddingBag, mode="sum", padding_idx=0)
    result, _ = rewrite(exported, "merge_embedding_tables")
    assert not result.applied and set(reasons(result.refused)) == {"the bag leaves out padding_idx"}


def test_it_refuses_bags_of_varying_length():
    def body(self, x):
        offsets = torch.arange(x.shape[0]) * 3
        return torch.cat([t(x.reshape(-1), offsets) for t in self.tables], 1)

    model, exported = built(body, make=nn.EmbeddingBag, mode="sum")
    result, graph = rewrite(exported, "merge_embedding_tables")
    assert not result.applied and set(reasons(result.refused)) == {"the bags may have varying lengths"}
    assert_equal_results(model, graph, ids(7), again=False)


def test_ids_that_come_out_of_an_earlier_lookup_are_not_merged_with_it():
    def body(self, x):
        first = self.tables[0](x[:, 0])
        return first, self.tables[1](first.argmax(1)), self.tables[2](x[:, 2])

    model, exported = built(body)
    result, graph = rewrite(exported, "merge_embedding_tables")
    assert reasons(result.refused) == ["its ids are computed from an earlier lookup"] and len(result.applied) == 2
    assert_equal_results(model, graph, ids(1), ids(7))


def test_a_padding_index_of_a_plain_lookup_does_not_matter_in_inference():
    model, exported = built(SPELLINGS["columns"], padding_idx=0)
    result, graph = rewrite(exported, "merge_embedding_tables")
    assert len(result.applied) == 3
    assert_equal_results(model, graph, ids(7), again=False)


HANDED_BACK = {
    "each": looked_up,
    "their views": lambda self, x: [y.t() for y in looked_up(self, x)],
    "a join and its members": lambda self, x: [torch.cat(looked_up(self, x), 1), looked_up(self, x)[0]],
    "two joins": lambda self, x: (lambda y: [torch.cat(y, 1), torch.stack(y, 1)])(looked_up(self, x)),
    "one": lambda self, x: (lambda y: [y[0], y[1] + y[2]])(looked_up(self, x)),
}


@pytest.mark.parametrize("case", HANDED_BACK)
@pytest.mark.parametrize("batch", [1, 4])
def test_outputs_that_are_handed_back_stay_dense_and_apart(case, batch):
    model, exported = built(HANDED_BACK[case])
    result, graph = rewrite(exported, "merge_embedding_tables")
    assert result.applied
    with torch.no_grad():
        expected, got = model(*ids(batch)), graph.module(*ids(batch))
    for a, b in zip(expected, got, strict=True):
        assert torch.equal(a, b) and a.stride() == b.stride()
    assert len({t.untyped_storage().data_ptr() for t in got}) == len(got)
