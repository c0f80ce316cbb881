"""A pass that fails, crashes or hangs costs itself only; what no pass can be guilty of ends the run as before."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from optimizer.coordinator import inspect, prepare, rewriting
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.capture import Captured
from optimizer.coordinator.rewriting import match_passes
from optimizer.coordinator.workshop import Rewritten, Workshop
from optimizer.errors import FuseworksError
from optimizer.optimizing.base import PASSES, Pass, run_passes
from optimizer.optimizing.graph import Graph
from optimizer.result import Inspection, Rewrite
from optimizer.spec import Workload
from tests.optimizer.coordinator.support import context
from tests.optimizer.optimizing.support import export

NAMES = ["a", "b", "c", "d", "e", "f", "g"]
CRASH = {"id": "child:user:crashed", "signal": "SIGSEGV"}
HANG = {"id": "child:user:timed-out", "limit_s": 225, "doing": "rewriting"}


class Shop:
    """Every list of passes that holds one of `broken` ends in that one's error."""

    captured = SimpleNamespace(format="pt2")

    def __init__(self, **broken):
        self.broken, self.runs = broken, []

    def rewrite(self, passes, *, timeout_s):
        assert timeout_s == 225, "a quarter of the budget of 900 s"
        names = NAMES if passes is None else [step.pass_ for step in passes]
        self.runs.append(names)
        for name in names:
            if name in self.broken:
                raise FuseworksError(**self.broken[name])
        rewrites = [Rewrite(pass_=n, nodes_before=1, nodes_after=1, seconds=0.0) for n in names]
        return Rewritten(None, rewrites)


@pytest.fixture
def matched(tmp_path, monkeypatch):
    monkeypatch.setattr(rewriting, "pass_names", lambda context, shop: list(NAMES))

    def run(shop):
        answer = Answer()
        found = match_passes(context(tmp_path, budget_s=900), shop, answer)
        return [rewrite.pass_ for rewrite in found], answer.notes

    return run


def test_passes_that_all_work_run_once_together(matched):
    shop = Shop()
    assert matched(shop) == (NAMES, [])
    assert len(shop.runs) == 1


def test_a_pass_that_the_error_names_is_left_out_at_once_and_told(matched):
    shop = Shop(c={"id": "optimizing:ours:pass-failed", "name": "c", "text": "KeyError: x"})
    found, (note,) = matched(shop)
    assert found == ["a", "b", "d", "e", "f", "g"]
    assert len(shop.runs) == 2
    assert note.startswith("The pass c is left out of this run: Pass 'c' failed on this graph: KeyError: x")


@pytest.mark.parametrize("error", [CRASH, HANG], ids=["crashes", "hangs"])
@pytest.mark.parametrize("guilty", NAMES)
def test_a_pass_that_takes_its_child_down_is_found_by_halving(matched, guilty, error):
    shop = Shop(**{guilty: error})
    found, (note,) = matched(shop)
    assert found == [name for name in NAMES if name != guilty]
    assert note.startswith(f"The pass {guilty} is left out of this run: The process running the model")
    assert len(shop.runs) <= 5, "all, three halvings of seven, all but the guilty"


def test_two_guilty_passes_are_both_left_out(matched):
    found, notes = matched(Shop(b=CRASH, f={"id": "optimizing:ours:bad-graph", "name": "f", "text": "lint"}))
    assert found == ["a", "c", "d", "e", "g"]
    assert [note.split(" is left out")[0] for note in notes] == ["The pass b", "The pass f"]


def test_where_everything_fails_the_engines_go_on_without_rewrites(matched):
    shop = Shop(**dict.fromkeys(NAMES, CRASH))
    found, notes = matched(shop)
    assert found == []
    assert notes[-1].startswith("No rewrite is proposed, the engines go on without")
    assert len(notes) == 1 + rewriting.MOST_GUILTY


def test_the_search_ends_with_its_time(matched, monkeypatch):
    monkeypatch.setattr(rewriting, "ALL_TRIES_SHARE", -1.0)
    monkeypatch.setattr(rewriting, "LEAST_S", -1.0)
    shop = Shop(d=CRASH)
    monkeypatch.setattr(rewriting, "_one_try_s", lambda context: 225)
    found, (note,) = matched(shop)
    assert (found, len(shop.runs)) == ([], 1)
    assert note.startswith("No rewrite is proposed")


@pytest.mark.parametrize("id", ["optimizing:user:bad-model", "sandbox:ours:unavailable"])
def test_what_no_pass_is_guilty_of_is_raised(matched, id):
    with pytest.raises(FuseworksError) as raised:
        matched(Shop(a={"id": id, "text": "broken"}))
    assert raised.value.id == id


# ---- with real passes -----------------------------------------------------------------------------------------------


class Planted(Pass):
    name = "planted"
    title = "Fails"
    summary = "Fails."
    numerics = "exact"
    order = 55

    def apply(self, graph, options, report):
        raise ZeroDivisionError("planted")


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x):
        return self.a(x) * self.b(x)


@pytest.fixture
def in_this_process(monkeypatch):
    """The workshop's passes are run here, on a real graph, one of them a planted one that fails."""
    PASSES.load()
    monkeypatch.setitem(PASSES._items, "planted", Planted())
    program = export(Pair(), torch.randn(4, 3))

    def rewrite(self, passes, timeout_s):
        steps = None if passes is None else [(step.pass_, step.options) for step in passes]
        with torch.no_grad():
            return Rewritten(self.captured.model, run_passes(Graph.from_exported(program), steps))

    monkeypatch.setattr(Workshop, "_rewrite", rewrite)
    monkeypatch.setattr(rewriting, "pass_names", lambda context, shop: PASSES.names())


def captured(tmp_path):
    inspection = Inspection(format="pt2", sha256="0" * 64, size_bytes=1, parameters=16, parameter_bytes=64)
    workload = Workload.model_validate({"inputs": [{"name": "x", "dtype": "float32", "shape": [4, 3]}]})
    model = tmp_path / "m.pt2"
    return Captured(model, "pt2", "pt2", model, None, workload, inspection)


def test_a_planted_failing_pass_leaves_the_search_its_peers_and_the_other_rewrites(tmp_path, in_this_process):
    answer, run = Answer(), context(tmp_path)
    shop = Workshop(run, captured(tmp_path))
    bench = prepare.Bench(run, captured(tmp_path), shop, answer)
    prepare.find_rewrites(bench)
    assert [r.pass_ for r in answer.rewrites if r.applied] == ["merge_parallel_linears"]
    assert "planted" not in [r.pass_ for r in answer.rewrites]
    (note,) = answer.notes
    assert note.startswith("The pass planted is left out of this run: Pass 'planted' failed on this graph: Zero")


def test_an_inspection_survives_a_planted_failing_pass(tmp_path, in_this_process, monkeypatch):
    monkeypatch.setattr(inspect, "capture", lambda *_: captured(tmp_path))
    answer = Answer()
    inspect.inspect(context(tmp_path), answer)
    assert answer.summary.endswith("rewrites that fit: merge_parallel_linears")
    assert len(answer.notes) == 1
