"""DIN's first attention layer is split by blocks: spelled in many ways, in all three forms; near misses are refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn

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

aten = torch.ops.aten
WIDTH, OUT = 8, 5


def expanded(q, k):
    return q.unsqueeze(1).expand(-1, k.shape[1], -1)


def four(e, k):
    return [e, k, e - k, e * k]


SPELLINGS = {
    "expand": lambda q, k: four(expanded(q, k), k),
    "repeat": lambda q, k: four(q.unsqueeze(1).repeat(1, k.shape[1], 1), k),
    "repeat and view": lambda q, k: four(q.repeat(1, k.shape[1]).view(q.shape[0], k.shape[1], WIDTH), k),
    "repeat_interleave": lambda q, k: four(q.view(-1, 1, WIDTH).repeat_interleave(k.shape[1], dim=1), k),
    "expand_as": lambda q, k: four(q[:, None, :].expand_as(k), k),
    "broadcasting": lambda q, k: [expanded(q, k), k, q.unsqueeze(1) - k, q[:, None] * k],
    "other order, other signs": lambda q, k: [k * q[:, None], expanded(q, k), k - q.unsqueeze(1), k],
    "without the keys": lambda q, k: [expanded(q, k), expanded(q, k) - k, expanded(q, k) * k],
    "without the query": lambda q, k: [k, q.unsqueeze(1) - k, q.unsqueeze(1) * k],
    "without the product": lambda q, k: [expanded(q, k), k, expanded(q, k) - k],
    "query and keys": lambda q, k: [expanded(q, k), k],
    "further blocks": lambda q, k: [k.sin(), *four(expanded(q, k), k), (expanded(q, k) - k) * 2, -k],
    "scaled sum": lambda q, k: [expanded(q, k), k, torch.add(k, expanded(q, k), alpha=0.5), k * expanded(q, k)],
}


class TargetAttention(nn.Module):
    def __init__(self, blocks, count, spelling="linear"):
        super().__init__()
        torch.manual_seed(0)
        self.blocks, self.spelling = blocks, spelling
        self.first = nn.Linear(count * WIDTH, OUT)

    def forward(self, q, k):
        x = torch.cat(self.blocks(q, k), -1)
        if self.spelling == "matmul":
            return torch.relu(x @ self.first.weight.t() + self.first.bias)
        if self.spelling == "flattened":
            return torch.relu(self.first(x.view(-1, x.shape[-1])).view(k.shape[0], k.shape[1], OUT))
        return torch.relu(self.first(x))


def inputs(batch, time):
    torch.manual_seed(batch * 100 + time)
    return torch.randn(batch, WIDTH), torch.randn(batch, time, WIDTH)


def built(blocks, spelling="linear"):
    model = TargetAttention(blocks, len(blocks(*inputs(2, 3))), spelling)
    return model, export(model, *inputs(3, 6), dims=({0: BATCH}, {0: BATCH, 1: TIME}))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_of_the_blocks_is_split_and_gives_the_same_results(spelling):
    model, exported = built(SPELLINGS[spelling])
    result, graph = rewrite(exported, "split_target_attention")
    assert len(result.applied) == 1 and not result.refused
    assert result.numerics == "reassociates"
    assert result.applied[0].source.startswith("test_split_target_attention.py:")
    assert_equal_results(model, graph, inputs(1, 2), inputs(3, 6), inputs(7, 5), again=False)


@pytest.mark.parametrize("form", ["batched", "concat", "two_gemms"])
@pytest.mark.parametrize("spelling", ["linear", "matmul", "flattened"])
def test_every_form_and_every_spelling_of_the_layer_gives_the_same_results(form, spelling):
    model, exported = built(SPELLINGS["expand"], spelling)
    result, graph = rewrite(exported, "split_target_attention", form=form)
    assert reasons(result.applied) == [f"{form}: q once a sample, k, q*k over the sequence, in place of 32 columns"]
    assert_equal_results(model, graph, inputs(1, 2), inputs(7, 5))


def test_the_batched_form_multiplies_the_sequence_once_by_weights_of_each_sample():
    _, exported = built(SPELLINGS["expand"])
    _, graph = rewrite(exported, "split_target_attention", form="batched")
    assert count(graph, aten.cat) == 0
    (product,) = graph.operations(aten.bmm)
    batch, width, out = graph.shape(product.args[1])
    assert (width, out) == (WIDTH, OUT) and not isinstance(batch, int)
    (row,) = graph.operations(aten.linear)
    assert graph.shape(row)[1] == 1, "the query's part is computed once a sample"


def test_the_concat_form_is_one_product_of_half_the_width():
    _, exported = built(SPELLINGS["expand"])
    _, graph = rewrite(exported, "split_target_attention", form="concat")
    widths = sorted(graph.constant_value(n.args[1]).shape[1] for n in graph.operations(aten.linear))
    assert widths == [WIDTH, 2 * WIDTH]


def test_the_split_weights_are_the_sums_and_differences_of_the_blocks():
    model, exported = built(SPELLINGS["expand"])
    _, graph = rewrite(exported, "split_target_attention", form="two_gemms")
    q, k, d, p = model.first.weight.detach().double().split(WIDTH, 1)
    weights = [graph.constant_value(n.args[1]) for n in graph.operations(aten.linear)]
    assert len(weights) == 3
    for expected in (q + d, k - d, p):
        assert any(torch.equal(expected.float(), w) for w in weights)


def test_a_short_static_sequence_falls_back_to_the_concat_form():
    model = TargetAttention(SPELLINGS["expand"], 4)
    result, graph = rewrite(export(model, *inputs(3, 3), dims=({0: BATCH}, {0: BATCH})), "split_target_attention")
    assert reasons(result.applied)[0].startswith("concat: ")
    assert_equal_results(model, graph, inputs(1, 3), inputs(5, 3))


def test_two_layers_on_one_concatenation_are_both_split():
    class Two(TargetAttention):
        def __init__(self):
            super().__init__(SPELLINGS["expand"], 4)
            self.second = nn.Linear(4 * WIDTH, 3, bias=False)

        def forward(self, q, k):
            x = torch.cat(self.blocks(q, k), -1)
            return self.first(x), self.second(x)

    model = Two()
    exported = export(model, *inputs(3, 6), dims=({0: BATCH}, {0: BATCH, 1: TIME}))
    result, graph = rewrite(exported, "split_target_attention")
    assert len(result.applied) == 2
    assert_equal_results(model, graph, inputs(1, 2), inputs(7, 5))


def test_dynamic_dimensions_and_their_ranges_are_kept():
    _, exported = built(SPELLINGS["expand"])
    _, graph = rewrite(exported, "split_target_attention")
    again = graph.to_exported()
    ranges = sorted((int(r.lower), int(r.upper)) for r in again.range_constraints.values())
    assert ranges == [(1, 64), (2, 48)]


def test_the_rewritten_program_loads_in_a_new_process(tmp_path):
    model, exported = built(SPELLINGS["expand"])
    _, graph = rewrite(exported, "split_target_attention")
    assert_loads_elsewhere(model, graph, inputs(7, 5), tmp_path)


def refused(model, *args, dims=({0: BATCH}, {0: BATCH, 1: TIME})):
    result, graph = rewrite(export(model, *args, dims=dims), "split_target_attention")
    assert not result.applied
    assert_equal_results(model, graph, args, again=False)
    return reasons(result.refused)


class Variant(nn.Module):
    def __init__(self, body, features=4 * WIDTH):
        super().__init__()
        self.first, self.body = nn.Linear(features, OUT), body

    def forward(self, q, k):
        return self.body(self, q, k)


def test_it_refuses_when_the_concatenation_has_other_users():
    def body(self, q, k):
        x = torch.cat(SPELLINGS["expand"](q, k), -1)
        return self.first(x), x.sum(-1)

    assert refused(Variant(body), *inputs(3, 6)) == ["the concatenation has other users (sum_1)"]


def test_it_refuses_when_the_concatenation_is_an_output():
    def body(self, q, k):
        x = torch.cat(SPELLINGS["expand"](q, k), -1)
        return self.first(x), x

    assert refused(Variant(body), *inputs(3, 6)) == ["the concatenation has other users (output)"]


def test_it_refuses_when_the_weight_is_computed():
    def body(self, q, k):
        return torch.cat(SPELLINGS["expand"](q, k), -1) @ (self.first.weight.t() * q.mean())

    assert refused(Variant(body), *inputs(3, 6)) == ["the weight is not constant"]


def test_it_refuses_another_axis():
    def body(self, q, k):
        return self.first(torch.cat(SPELLINGS["expand"](q, k), 1))

    reason = "the blocks are joined along another axis than the features'"
    assert refused(Variant(body, WIDTH), *inputs(3, 6)) == [reason]


def test_it_refuses_when_no_block_is_repeated_over_the_sequence():
    def body(self, q, k):
        return self.first(torch.cat(four(q, k), -1))

    args = torch.randn(3, 6, WIDTH), torch.randn(3, 6, WIDTH)
    dims = ({0: BATCH, 1: TIME}, {0: BATCH, 1: TIME})
    assert refused(Variant(body), *args, dims=dims) == ["no block is one row repeated over the sequence"]


def test_it_says_nothing_of_a_plain_concatenation():
    def body(self, q, k):
        return self.first(torch.cat([k, k.sin(), k.cos(), k.exp()], -1)) + q.sum()

    assert refused(Variant(body), *inputs(3, 6)) == []


def test_a_difference_whose_features_are_broadcast_is_left_whole():
    def body(self, q, k):
        e = expanded(q, k)
        return self.first(torch.cat([e, k, k - q.mean(-1, keepdim=True).unsqueeze(1), e * k], -1))

    model = Variant(body)
    exported = export(model, *inputs(3, 6), dims=({0: BATCH}, {0: BATCH, 1: TIME}))
    result, graph = rewrite(exported, "split_target_attention")
    assert len(result.applied) == 1
    assert_equal_results(model, graph, inputs(1, 2), inputs(7, 5))
