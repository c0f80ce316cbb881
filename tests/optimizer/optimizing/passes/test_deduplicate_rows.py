"""What is promised to repeat over the batch is computed once: graph, results while the promise is kept, refusals."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from optimizer.optimizing.base import run_passes
from optimizer.optimizing.graph import Graph
from tests.optimizer.optimizing.support import BATCH, assert_equal_results, assert_loads_elsewhere, export, reasons

aten = torch.ops.aten
USER, ITEM = 6, 5


def deduplicated(exported, promised=(0,)):
    graph = Graph.from_exported(exported)
    graph.promised = list(promised)
    with torch.no_grad():
        (result,) = run_passes(graph, [("deduplicate_rows", {})])
    return result, graph


def sizes_of(graph, *ops):
    """The first size of each such operation's result; -1 where it is dynamic."""
    shapes = [graph.shape(node) for node in graph.operations(*ops)]
    return [shape[0] if isinstance(shape[0], int) else -1 for shape in shapes]


def pair(batch, user=(USER,), item=(ITEM,)):
    torch.manual_seed(batch)
    return torch.randn(1, *user).expand(batch, *user).contiguous(), torch.randn(batch, *item)


def dims(count=2):
    return tuple({0: BATCH} for _ in range(count))


class Towers(nn.Module):
    """A user's tower, an item's, and layers over both."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.user = nn.Sequential(nn.Linear(USER, 16), nn.ReLU(), nn.Linear(16, 8))
        self.item = nn.Linear(ITEM, 4)
        self.top = nn.Sequential(nn.Linear(12, 7), nn.ReLU(), nn.Linear(7, 1))

    def forward(self, user, item):
        return self.top(torch.cat([self.user(user), self.item(item)], -1)).sigmoid()


def test_the_users_tower_runs_for_one_row_and_the_joining_layer_is_split_by_columns():
    model = Towers()
    result, graph = deduplicated(export(model, *pair(3), dims=dims()))
    assert reasons(result.applied) == [
        "3 operations once a batch, as long as user repeat over it",
        "8 of 12 columns once",
    ]
    assert graph.relies_on_promise and not result.refused and result.numerics == "reassociates"
    # the tower's two layers and the user's columns of the top's first, once; the item's, the rest, and the head for all
    assert sorted(sizes_of(graph, aten.linear)) == [-1, -1, -1, 1, 1, 1]
    assert not graph.operations(aten.cat, aten.expand)
    assert_equal_results(model, graph, pair(1), pair(3), pair(17))


def test_a_batch_that_breaks_the_promise_gets_another_answer_so_that_a_guard_is_needed():
    model = Towers()
    _, graph = deduplicated(export(model, *pair(3), dims=dims()))
    user, item = pair(4)
    user[3] += 1
    with torch.no_grad():
        assert (model(user, item) - graph.module(user, item))[3].abs().max() > 1e-3


def test_the_rewritten_program_keeps_its_dynamic_batch_and_loads_in_a_new_process(tmp_path):
    model = Towers()
    _, graph = deduplicated(export(model, *pair(3), dims=dims()))
    (span,) = graph.to_exported().range_constraints.values()
    assert (int(span.lower), int(span.upper)) == (1, 64)
    assert_loads_elsewhere(model, graph, pair(9), tmp_path)


def heads(x):
    return x.view(x.shape[0], 3, 2).transpose(1, 2)


def attended(user, item):
    keys = user.view(user.shape[0], 3, 2)
    scores = torch.bmm(item[:, :2].unsqueeze(1), keys.transpose(1, 2))
    return torch.bmm(scores.softmax(-1), keys).squeeze(1)


def merged(user, item):
    """A view merges the batch with the sequence, and another takes it apart again."""
    flat = user.view(-1, 2).tanh()
    return flat.view(user.shape[0], 3, 2).sum(1) + item[:, :2]


def masked(user, item):
    """Positions up to a length that repeats, as a mask of [1, T] against [batch, 1]."""
    mask = torch.arange(ITEM).unsqueeze(0) < user[:, :1]
    return item.masked_fill(~mask, -1e9).softmax(-1)


ROW_WISE = {
    "softmax and norm": lambda u, i: F.layer_norm(u.softmax(-1), (USER,))[:, :ITEM] * i,
    "reductions": lambda u, i: torch.stack([u.sum(1), u.mean(1), u.amax(-1), u.std(1), u.norm(dim=1)], 1) - i,
    "heads": lambda u, i: heads(u.exp()).flatten(1)[:, :ITEM] + i,
    "attention over what repeats": attended,
    "attention of what repeats": lambda u, i: torch.bmm(u.exp().unsqueeze(1), i.unsqueeze(1).expand(-1, USER, -1)),
    "sdpa": lambda u, i: (
        F.scaled_dot_product_attention(heads(u)[:, None], heads(u)[:, None], heads(u)[:, None])[:, 0, 0] * i[:, :3]
    ),
    "einsum of both": lambda u, i: torch.einsum("bi,bj->bij", u.exp(), i),
    "einsum of one": lambda u, i: torch.einsum("bi,bj->bij", u, u).sum(2)[:, :ITEM] * i,
    "merged with the sequence": merged,
    "mask": masked,
    "split and unbind": lambda u, i: u.split(2, 1)[1].sum(1, keepdim=True) * i + u.unbind(1)[0].unsqueeze(1),
    "topk and sort": lambda u, i: u.topk(2, 1)[0].sum(1, keepdim=True) * i + u.sort(1)[0][:, :1],
    "gather": lambda u, i: u.gather(1, u.argsort(1))[:, :ITEM] + i,
    "index by constants": lambda u, i: u[:, torch.tensor([0, 2, 4, 5, 1])] * i,
    "expand and repeat": lambda u, i: u.unsqueeze(1).expand(-1, 2, -1).repeat(1, 1, 2).sum(1)[:, :ITEM] * i,
    "expand as what varies": lambda u, i: u.exp()[:, :1].expand_as(i) * i,
    "stacked fields": lambda u, i: torch.stack([u[:, :4].exp(), i[:, :4], u[:, 2:].exp()], 1).pow(2).sum(1),
    "joined and activated": lambda u, i: torch.cat([i, u.exp()], 1).relu().flip(1),
    "two of each": lambda u, i: torch.cat([u.exp(), i, u.tanh(), i], 1).mean(1),
    "handed back": lambda u, i: (u.exp(), i.exp()),
    "the input handed back beside": lambda u, i: (u.exp() * i[:, :1], u + 0),
    "padding": lambda u, i: F.pad(u.exp(), (1, 0))[:, :ITEM] * i,
    "sizes": lambda u, i: u.exp().sum(1).view(u.shape[0], 1) * i / u.shape[0],
    "casts and where": lambda u, i: torch.where(u[:, :ITEM] > 0, u[:, :ITEM].double(), i.double()).float(),
}


class Wrapped(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, user, item):
        return self.function(user, item)


@pytest.mark.parametrize("name", ROW_WISE)
def test_operations_that_keep_rows_apart_are_done_once_and_give_the_same_results(name):
    model = Wrapped(ROW_WISE[name])
    result, graph = deduplicated(export(model, *pair(3), dims=dims()))
    assert result.applied and not result.refused, reasons(result.refused)
    assert_equal_results(model, graph, pair(1), pair(3), pair(11), again=name in ("merged with the sequence", "sizes"))


class Bags(nn.Module):
    """Bags of ids of user and item, one length each."""

    def __init__(self, mode):
        super().__init__()
        torch.manual_seed(2)
        self.user, self.item = nn.EmbeddingBag(20, 4, mode=mode), nn.EmbeddingBag(30, 4, mode=mode)
        self.top = nn.Linear(8, 3)

    def forward(self, user, item):
        return self.top(torch.cat([self.user(user), self.item(item)], 1))


def bags(batch):
    torch.manual_seed(batch)
    return torch.randint(0, 20, (1, 5)).expand(batch, -1).contiguous(), torch.randint(0, 30, (batch, 3))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_the_user_are_read_once(mode):
    model = Bags(mode)
    result, graph = deduplicated(export(model, *bags(4), dims=dims()))
    assert "4 of 8 columns once" in reasons(result.applied) and not result.refused
    assert sorted(sizes_of(graph, aten.linear)) == [-1, 1]
    assert_equal_results(model, graph, bags(1), bags(4), bags(13))


def test_parts_of_two_dtypes_are_joined_whole():
    model = Wrapped(lambda u, i: torch.cat([u.exp(), i.double()], 1) * 2)
    result, graph = deduplicated(export(model, *pair(3), dims=dims()))
    assert result.applied
    assert_equal_results(model, graph, pair(1), pair(5), again=False)


MIXING = {
    "sum over the batch": (lambda u, i: u.exp().sum(0) * i[:, :1], "it works along the batch"),
    "softmax over the batch": (lambda u, i: u.exp().softmax(0) * i[:, :1], "it works along the batch"),
    "sort of the batch": (lambda u, i: u.exp().sort(0)[0] * i[:, :1], "it works along the batch"),
    "products of all rows": (lambda u, i: (u.exp().t() @ u) + i.sum(), "the batch is what it sums over"),
    "similarity in the batch": (
        lambda u, i: u.exp() @ u.t() + i[:, :1],
        "its operands repeat along different dimensions",
    ),
    "batch behind the features": (
        lambda u, i: u.exp().t().reshape(-1).view(USER, -1).t() * i[:, :1],
        "the view merges the batch with other dimensions",
    ),
    "the whole tensor's maximum": (lambda u, i: u.exp().max() * i, "it may mix rows"),
    "batch norm in training": (
        lambda u, i: F.batch_norm(u.exp(), torch.zeros(USER), torch.ones(USER), training=True, eps=1.0) * i[:, :1],
        "batch norm in training takes its statistics over the batch",
    ),
}


@pytest.mark.parametrize("name", MIXING)
def test_what_mixes_rows_is_refused_with_its_reason_and_gets_all_rows(name):
    function, reason = MIXING[name]
    model = Wrapped(function)
    result, graph = deduplicated(export(model, *pair(4), dims=dims()))
    assert reason in reasons(result.refused)
    assert result.refused[0].source.startswith("test_deduplicate_rows.py:")
    assert len(result.applied) == 1, "exp() before it is still done once"
    assert_equal_results(model, graph, pair(2), pair(4), pair(9), again=False)


def test_random_numbers_are_of_each_row():
    model = Wrapped(lambda u, i: F.dropout(u.exp(), 0.5, training=True) * i[:, :1])
    result, graph = deduplicated(export(model, *pair(4), dims=dims()))
    assert reasons(result.refused) == ["it draws random numbers of each row's own"]
    (drawn,) = graph.operations(aten.dropout)
    assert not isinstance(graph.shape(drawn)[0], int)


def test_what_is_written_in_place_is_left_as_it_is():
    def forward(user, item):
        user[:, 0] = 1.0
        return user.exp() * item[:, :1]

    result, graph = deduplicated(export(Wrapped(forward), *pair(4), dims=dims()))
    assert not result.applied and not graph.relies_on_promise
    assert reasons(result.refused) == ["it has no batch, or is written in place"]


def test_it_refuses_a_workload_without_a_contract():
    result, graph = deduplicated(export(Towers(), *pair(3), dims=dims()), promised=())
    assert not result.applied and not graph.relies_on_promise
    assert reasons(result.refused) == ["the workload holds no contract: no input is promised to repeat over the batch"]


def test_it_refuses_a_promised_input_that_nothing_is_computed_from_alone():
    for function in (lambda u, i: u * i.sum(1, keepdim=True), lambda u, i: u.view(-1, 2, 3).sum() + u.t().sum() * i):
        before = export(Wrapped(function), *pair(3), dims=dims())
        result, graph = deduplicated(before)
        assert "nothing is computed from the promised inputs alone" in reasons(result.refused)
        assert not graph.relies_on_promise and not graph.operations(aten.slice.Tensor)


def test_it_refuses_a_batch_of_one_and_inputs_of_two_batches():
    result, _ = deduplicated(export(Towers(), *pair(1)))
    assert reasons(result.refused) == ["the batch is always one"]
    other = Dim("other", min=1, max=9)
    model = Wrapped(lambda u, i: u.exp().sum() + i.exp().sum())
    result, _ = deduplicated(export(model, *pair(3), dims=({0: BATCH}, {0: other})), promised=(0, 1))
    assert reasons(result.refused) == ["its first dimension is not that of user"]


def test_a_batch_of_a_fixed_size_is_served_as_well():
    model = Towers()
    result, graph = deduplicated(export(model, *pair(12)))  # 12 is also the width of the joined features
    assert len(result.applied) == 2
    assert_equal_results(model, graph, pair(12))


def test_it_is_applied_once():
    graph = Graph.from_exported(export(Towers(), *pair(3), dims=dims()))
    graph.promised = [0]
    first, second = run_passes(graph, [("deduplicate_rows", {}), ("deduplicate_rows", {})])
    assert first.applied and reasons(second.refused) == ["the graph has been rewritten for the promise before"]
