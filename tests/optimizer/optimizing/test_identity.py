"""A pass's identity changes with its own source and with any helper's, and with nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer.optimizing import identity
from optimizer.optimizing.base import PASSES


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pass `p` with a helper, which has a helper of its own, imported within a function."""
    folder = tmp_path / "optimizer" / "optimizing"
    (folder / "passes").mkdir(parents=True)
    (folder / "passes" / "p.py").write_text("from optimizer.optimizing.helper import work\nimport torch\n")
    (folder / "passes" / "q.py").write_text("import json\n")
    (folder / "helper.py").write_text("def work():\n    from optimizer.optimizing import deeper\n")
    (folder / "deeper.py").write_text("X = 1\n")
    (tmp_path / "optimizer" / "errors.py").write_text("Y = 1\n")
    monkeypatch.setattr(identity, "ROOT", tmp_path)
    return tmp_path


def fresh(name: str) -> str:
    identity.source_identity.cache_clear()
    identity._imported.cache_clear()
    return identity.pass_identity(name, "pt2")


@pytest.mark.parametrize("changed", ["passes/p.py", "helper.py", "deeper.py"])
def test_it_changes_with_the_pass_its_helper_and_the_helpers_helper(changed: str, tree: Path) -> None:
    before, other = fresh("p"), fresh("q")
    file = tree / "optimizer" / "optimizing" / changed
    file.write_text(file.read_text() + "# another word\n")
    assert fresh("p") != before
    assert fresh("q") == other, "a pass that does not use it stays what it was"


def test_what_is_no_helper_of_passes_changes_nothing(tree: Path) -> None:
    before = fresh("p")
    (tree / "optimizer" / "errors.py").write_text("Y = 2\n")
    assert fresh("p") == before


def test_helpers_that_import_each_other_are_followed_once(tree: Path) -> None:
    (tree / "optimizer" / "optimizing" / "deeper.py").write_text("import optimizer.optimizing.helper\n")
    found = identity.modules_behind(tree / "optimizer" / "optimizing" / "passes" / "p.py")
    assert sorted(path.name for path in found) == ["deeper.py", "helper.py", "p.py"]


def test_every_registered_pass_has_the_identity_that_the_coordinator_reads_without_torch() -> None:
    identity.source_identity.cache_clear()
    identity._imported.cache_clear()
    assert {one.name: one.identity for one in PASSES} == {
        name: identity.pass_identity(name, "pt2") for name in PASSES.names()
    }
    assert identity.pass_names("pt2") == PASSES.names()


def test_attention_is_told_by_the_helpers_that_read_it() -> None:
    behind = identity.modules_behind(identity.ROOT / "optimizer/optimizing/passes/fuse_attention.py")
    assert {"fuse_attention.py", "attention.py", "attention_masks.py", "graph.py"} <= {path.name for path in behind}
