"""The registry of passes, their options, the runner, and the child's operations."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest
import torch
from torch import nn

from optimizer.children import wire
from optimizer.children.session import Session
from optimizer.errors import FuseworksError
from optimizer.optimizing import child
from optimizer.optimizing.base import PASSES, Pass, Report, run_passes, standard_order
from optimizer.optimizing.graph import Graph
from optimizer.optimizing.onnx_passes.base import standard_order as onnx_standard_order
from optimizer.recipe import Machine, recipe_from_candidate
from optimizer.spec import BackendStep, PassStep
from tests.optimizer.optimizing.support import BATCH, export

aten = torch.ops.aten


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x):
        return self.a(x) * self.b(x)


def pair():
    return export(Pair(), torch.randn(4, 3), dims=({0: BATCH},))


@pytest.mark.parametrize("one", list(PASSES), ids=lambda p: p.name)
def test_every_pass_describes_itself_and_each_of_its_options(one):
    assert one.title and one.summary.endswith(".")
    assert one.numerics in {"exact", "reassociates"}
    assert len(one.identity) == 64
    for name, field in one.manifest()["options_schema"].get("properties", {}).items():
        assert field.get("description"), f"{one.name}.{name} has no description"
    one.Options()  # every option has a default


def test_the_standard_order_tidies_first_and_merges_last():
    names = [p.name for p in standard_order()]
    assert names.index("split_target_attention") < names.index("last_token_pushdown")
    assert names.index("last_token_pushdown") < names.index("merge_embedding_tables")
    assert names.index("merge_embedding_tables") < names.index("merge_parallel_linears")
    assert len({p.order for p in standard_order()}) == len(names)


def test_an_unknown_pass_or_option_is_the_users_error():
    graph = Graph.from_exported(pair())
    with pytest.raises(FuseworksError) as unknown:
        run_passes(graph, [("merge_everything", {})])
    assert unknown.value.id == "optimizing:user:unknown-pass" and "merge_parallel_linears" in unknown.value.remedy
    for options in ({"max_widht": 3}, {"max_width": "wide"}, {"max_group": 1}):
        with pytest.raises(FuseworksError) as bad:
            run_passes(graph, [("merge_parallel_linears", options)])
        assert bad.value.id == "optimizing:user:bad-options" and next(iter(options)) in str(bad.value)
    assert len(graph.operations(aten.linear)) == 2, "nothing was changed"


def test_all_steps_are_checked_before_the_first_is_applied():
    graph = Graph.from_exported(pair())
    with pytest.raises(FuseworksError):
        run_passes(graph, [("merge_parallel_linears", {}), ("merge_everything", {})])
    assert len(graph.operations(aten.linear)) == 2


class Broken(Pass):
    name, title, summary, numerics, order = "broken", "Broken", "Raises.", "exact", 999

    def apply(self, graph: Graph, options: object, report: Report) -> None:
        graph.replace(graph.operations(aten.linear)[0], graph.inputs[0])


def test_a_pass_that_fails_is_our_fault_and_named(monkeypatch):
    PASSES.load()
    monkeypatch.setitem(PASSES._items, "broken", Broken())
    with pytest.raises(FuseworksError) as failed:
        run_passes(Graph.from_exported(pair()), [("broken", {})])
    assert failed.value.id == "optimizing:ours:pass-failed" and failed.value.side == "ours"
    assert "ShapeChanged" in failed.value.message


def call(tmp_path: Path, operation: str, **request: object) -> tuple[dict, dict[str, bytes]]:
    """An operation as the child runs it, and the files that it sent."""
    ours, theirs = socket.socketpair()
    files: dict[str, bytes] = {}

    def receive() -> None:
        while True:
            try:
                header, _ = wire.receive(ours.fileno())
            except EOFError:
                return
            files[header["name"]] = bytes(wire.read_exactly(ours.fileno(), header["size"]))

    reader = threading.Thread(target=receive)
    reader.start()
    try:
        fields, _ = child.OPERATIONS[operation](Session(fd=theirs.fileno(), scratch=tmp_path), request, [])
    finally:
        theirs.close()
        reader.join(timeout=10)
        ours.close()
    return fields, files


def test_rewrite_answers_with_the_rewrites_and_the_program(tmp_path):
    torch.export.save(pair(), tmp_path / "captured.pt2")
    request = {"model": str(tmp_path / "captured.pt2"), "format": "pt2", "workload": {}}
    passes = [{"pass": "merge_parallel_linears", "options": {"max_group": 8}}]
    fields, files = call(tmp_path, "rewrite", **request, passes=passes)
    (rewrite,) = fields["rewrites"]
    assert rewrite["pass"] == "merge_parallel_linears"
    assert rewrite["options"] == {"min_width": 2, "max_width": 65536, "max_member_width": None, "max_group": 8}
    assert len(rewrite["applied"]) == 2 and rewrite["applied"][0]["source"].startswith("test_passes.py:")
    (tmp_path / "got.pt2").write_bytes(files["rewritten.pt2"])
    x = torch.randn(5, 3)
    with torch.no_grad():
        before, after = (torch.export.load(tmp_path / n).module()(x) for n in ("captured.pt2", "got.pt2"))
    torch.testing.assert_close(after, before)


def test_rewrite_without_a_list_runs_every_pass_and_sends_nothing_when_none_applied(tmp_path):
    class Lonely(nn.Module):
        def forward(self, x):
            return x.cumsum(0)

    torch.export.save(export(Lonely(), torch.randn(4, 3), dims=({0: BATCH},)), tmp_path / "captured.pt2")
    request = {"model": str(tmp_path / "captured.pt2"), "format": "pt2", "workload": {}, "passes": None}
    fields, files = call(tmp_path, "rewrite", **request)
    assert [r["pass"] for r in fields["rewrites"]] == [p.name for p in standard_order()]
    assert not any(r["applied"] for r in fields["rewrites"]) and files == {}
    assert not os.path.exists(tmp_path / "rewritten.pt2")


def test_a_file_that_is_no_program_is_the_users_error(tmp_path):
    (tmp_path / "captured.pt2").write_bytes(b"nothing of the kind")
    with pytest.raises(FuseworksError) as bad:
        call(tmp_path, "rewrite", model=str(tmp_path / "captured.pt2"), format="pt2", passes=None)
    assert bad.value.id == "optimizing:user:bad-model"


def test_a_manifest_has_the_schema_of_the_options_with_their_defaults():
    manifest = PASSES.get("merge_embedding_tables").manifest()
    assert manifest["options_schema"]["properties"]["max_bytes"]["default"] == 268435456


@pytest.mark.parametrize(
    ("format", "order"), [("pt2", standard_order), ("onnx", onnx_standard_order)], ids=["pt2", "onnx"]
)
def test_the_child_names_its_passes_in_standard_order(tmp_path, format, order):
    fields, files = call(tmp_path, "passes", format=format)
    assert fields == {"passes": [one.name for one in order()]} and files == {}
    assert fields["passes"], "an empty list would say that there are none"


def test_options_are_reported_in_full_so_that_a_recipe_outlives_its_defaults():
    graph = Graph.from_exported(pair())
    with torch.no_grad():
        rewrites = run_passes(graph, [("merge_parallel_linears", {"max_group": 8})])
    step = PassStep(pass_="merge_parallel_linears", options={"max_group": 8})
    here = Machine(target="cpu", isa=(), libraries={"torch": torch.__version__})
    recipe = recipe_from_candidate([step, BackendStep(backend="eager")], rewrites, here, name="x")
    full = {"min_width": 2, "max_width": 65536, "max_member_width": None, "max_group": 8}
    assert recipe.steps[0].options == full
    again = run_passes(Graph.from_exported(pair()), [("merge_parallel_linears", recipe.steps[0].options)])
    assert again[0].options == full and len(again[0].applied) == 2
