"""What is proposed for a training step: peers by the documentation, ours by what the passes did."""

from __future__ import annotations

import pytest

from optimizer.optimizing.planner import Facts
from optimizer.optimizing.training_planner import TrainingPlanner
from optimizer.result import Rewrite, Site
from optimizer.spec import Policy, RuntimeSettings, dump_step

PEERS = ["inductor_step", "inductor_step optimizer=compiled"]


def planner(*passes: str, unusable: str | None = None) -> TrainingPlanner:
    sites = [Site(node="n", reason="done")]
    rewrites = [Rewrite(pass_=name, applied=sites, nodes_before=9, nodes_after=9, seconds=0.1) for name in passes]
    engines = {"eager_step": None, "inductor_step": unusable}
    return TrainingPlanner(Facts("step", "eager_step", engines, RuntimeSettings(), Policy(), None), rewrites)


def test_the_peers_are_what_pytorchs_documentation_gives() -> None:
    found = planner().peers()
    assert [one.name for one in found] == PEERS and all(one.peer for one in found)
    assert [dump_step(one.steps[-1]) for one in found] == [
        {"backend": "inductor_step"},
        {"backend": "inductor_step", "options": {"optimizer": "compiled"}},
    ]


def test_without_a_compiler_there_are_no_peers_and_the_reason_is_kept() -> None:
    one = planner("fuse_optimizer", unusable="no C++ compiler: install g++")
    assert one.peers() == []
    assert [(d.candidate.name, d.reason) for d in one.dropped] == [("inductor_step", "no C++ compiler: install g++")]
    assert [c.name for c in one.first_rewritten()] == ["eager_step + rewrites"]


def test_what_the_passes_did_is_tried_eager_and_compiled() -> None:
    found = planner("update_embedding_rows", "fuse_optimizer").first_rewritten()
    assert [one.name for one in found] == ["eager_step + rewrites", "inductor_step + rewrites"]
    assert [dump_step(step) for step in found[0].steps] == [
        {"pass": "update_embedding_rows"},
        {"pass": "fuse_optimizer"},
        {"backend": "eager_step"},
    ]


def test_where_no_pass_applied_nothing_of_ours_is_tried() -> None:
    assert planner().first_rewritten() == [] == planner().more_rewritten(dict.fromkeys(PEERS, 1.0))


def test_the_compiled_optimizer_is_tried_behind_the_passes_that_leave_it_alone() -> None:
    one = planner("update_embedding_rows", "fuse_optimizer")
    (found,) = one.more_rewritten({PEERS[0]: 1.0, PEERS[1]: 1.2})
    assert found.name == "inductor_step optimizer=compiled + rewrites but for fuse_optimizer"
    assert [dump_step(step) for step in found.steps] == [
        {"pass": "update_embedding_rows"},
        {"backend": "inductor_step", "options": {"optimizer": "compiled"}},
    ]
    assert planner("fuse_optimizer").more_rewritten({PEERS[0]: 1.0, PEERS[1]: 1.2}) == []


@pytest.mark.parametrize(
    ("screened", "reason"),
    [
        ({PEERS[0]: 2.0}, "the compiled optimizer by itself gave no correct and timed answer"),
        ({PEERS[0]: 2.0, PEERS[1]: 1.4}, "the compiled optimizer by itself reaches 70% of the other's"),
    ],
)
def test_a_compiled_optimizer_that_does_not_hold_its_own_is_named(screened: dict[str, float], reason: str) -> None:
    one = planner("update_embedding_rows")
    assert one.more_rewritten(screened) == []
    assert one.dropped[-1].reason == reason


def test_a_training_step_is_searched_in_float32_only() -> None:
    assert planner("fuse_optimizer").low_precision() == []
