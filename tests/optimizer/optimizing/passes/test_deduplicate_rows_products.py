"""Pairwise products of stacked embeddings (DLRM's interaction), of which some repeat over the batch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.optimizer.optimizing.passes.test_deduplicate_rows import deduplicated, dims, sizes_of
from tests.optimizer.optimizing.support import assert_equal_results, export, reasons

aten = torch.ops.aten
WIDTH = 4


def vectors(batch, users=3, items=2):
    torch.manual_seed(batch)
    user = torch.randn(1, users * WIDTH).expand(batch, -1).contiguous()
    return user, torch.randn(batch, items * WIDTH)


def stacked(user, item):
    fields = [*user.exp().split(WIDTH, 1), *item.split(WIDTH, 1)]
    return torch.stack(fields, 1)


def interleaved(user, item):
    a, b, c = user.exp().split(WIDTH, 1)
    d, e = item.split(WIDTH, 1)
    return torch.stack([a, d, b, e, c], 1)


def viewed(user, item):
    return torch.cat([user.exp(), item], 1).view(user.shape[0], -1, WIDTH)


class Interaction(nn.Module):
    def __init__(self, joined, pick, columns):
        super().__init__()
        torch.manual_seed(1)
        self.joined, self.pick = joined, pick
        self.top = nn.Linear(columns, 6)

    def forward(self, user, item):
        x = self.joined(user, item)
        return self.top(self.pick(torch.bmm(x, x.transpose(1, 2))))


def lower(products):
    row, column = torch.tensor([1, 2, 2, 3, 3, 3, 4, 4, 4, 4]), torch.tensor([0, 0, 1, 0, 1, 2, 0, 1, 2, 3])
    return products[:, row, column]


def with_itself(products):
    return products[:, torch.tensor([3, 0, 0, 3]), torch.tensor([0, 0, 3, 0])]


@pytest.mark.parametrize("joined", [stacked, interleaved, viewed])
def test_products_of_two_repeating_vectors_are_computed_once(joined):
    model = Interaction(joined, lower, 10)
    result, graph = deduplicated(export(model, *vectors(5), dims=dims()))
    # of 5 vectors 3 repeat: 3 of the 10 pairs are theirs alone, 6 are mixed, 1 is of the two that vary
    assert [r for r in reasons(result.applied) if "products" in r] == ["3 of 10 products once"]
    assert [r for r in reasons(result.applied) if "columns" in r] == ["3 of 10 columns once"]
    assert sorted(sizes_of(graph, aten.bmm)) == [-1, 1]
    assert_equal_results(model, graph, vectors(1), vectors(5), vectors(8))


def test_the_mixed_products_are_one_product_of_all_rows_by_what_repeats():
    _, graph = deduplicated(export(Interaction(stacked, lower, 10), *vectors(5), dims=dims()))
    (mixed,) = graph.operations(aten.matmul)
    assert len(graph.shape(mixed.args[1])) == 2, "a matrix, so that no batch of small products is left"


@pytest.mark.parametrize(
    ("pick", "columns"), [(with_itself, 4), (lambda p: p.flatten(1), 25), (lambda p: p.view(p.shape[0], -1), 25)]
)
def test_every_pick_of_products_gives_the_same_results(pick, columns):
    for joined in (stacked, interleaved):
        model = Interaction(joined, pick, columns)
        result, graph = deduplicated(export(model, *vectors(5), dims=dims()))
        assert any("products once" in r for r in reasons(result.applied))
        assert_equal_results(model, graph, vectors(1), vectors(5), vectors(8), again=False)


@pytest.mark.parametrize(
    "use",
    [
        lambda p: p.softmax(-1).flatten(1),
        lambda p: p.transpose(1, 2).flatten(1),
        lambda p: p[:, 1:].flatten(1),
        lambda p: (p + p.transpose(1, 2)).flatten(1),
    ],
    ids=["softmax", "transposed", "sliced", "symmetrised"],
)
def test_whatever_else_reads_the_products_gets_them_whole(use):
    model = Interaction(interleaved, use, 20 if "1:" in str(use.__code__.co_consts) else 25)
    model.top = nn.Identity()
    result, graph = deduplicated(export(model, *vectors(5), dims=dims()))
    assert result.applied
    assert_equal_results(model, graph, vectors(1), vectors(5), vectors(8), again=False)


def test_products_that_are_not_of_a_tensor_by_itself_are_each_taken_from_their_own_side():
    class Two(Interaction):
        def forward(self, user, item):
            x, y = interleaved(user, item), interleaved(user.cos(), item.sin())
            return self.top(self.pick(torch.bmm(x, y.transpose(1, 2))))

    model = Two(None, with_itself, 4)
    result, graph = deduplicated(export(model, *vectors(5), dims=dims()))
    assert any("products once" in r for r in reasons(result.applied))
    assert_equal_results(model, graph, vectors(1), vectors(5), vectors(8), again=False)
    model = Two(None, lambda p: p.flatten(1), 25)
    _, graph = deduplicated(export(model, *vectors(5), dims=dims()))
    assert_equal_results(model, graph, vectors(1), vectors(5), vectors(8), again=False)
