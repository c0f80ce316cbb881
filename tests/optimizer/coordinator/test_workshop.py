"""Plans are taken apart by kind of step; builds are keyed by what decides the artifact, and never done twice."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from optimizer.coordinator.builds import Builds
from optimizer.coordinator.workshop import Plan, Rewritten, Workshop, _told_as_a_build
from optimizer.errors import FuseworksError
from optimizer.result import Candidate, Rewrite, Site
from tests.optimizer.coordinator.support import context

TUNED = {"runtime": {"allocator": "glibc-no-trim"}}


def candidate(*steps, name="candidate"):
    return Candidate.model_validate({"name": name, "steps": list(steps)})


def workshop(tmp_path, monkeypatch, build):
    monkeypatch.setattr(Workshop, "_build", lambda self, plan: build(plan))
    captured = SimpleNamespace(model=tmp_path / "captured.pt2", format="pt2")
    return Workshop(context(tmp_path), captured)


def test_a_plan_knows_settings_passes_precision_and_backend():
    plan = Plan.of(candidate(TUNED, {"pass": "a"}, {"precision": "bfloat16"}, {"backend": "openvino"}))
    assert plan.settings.allocator == "glibc-no-trim"
    assert [step.pass_ for step in plan.passes] == ["a"]
    assert plan.precision_name == "bfloat16"
    assert plan.backend.backend == "openvino"


def test_the_settings_of_the_process_do_not_decide_the_artifact_but_every_other_step_does():
    base = Plan.of(candidate({"pass": "a"}, {"backend": "openvino"})).build_key()
    assert Plan.of(candidate(TUNED, {"pass": "a"}, {"backend": "openvino"})).build_key() == base
    others = [
        candidate({"pass": "b"}, {"backend": "openvino"}),
        candidate({"pass": "a", "options": {"x": 1}}, {"backend": "openvino"}),
        candidate({"pass": "a"}, {"precision": "bfloat16"}, {"backend": "openvino"}),
        candidate({"pass": "a"}, {"backend": "eager"}),
        candidate({"pass": "a"}, {"backend": "openvino", "options": {"static": True}}),
    ]
    assert base not in {Plan.of(other).build_key() for other in others}


def test_code_that_was_compiled_for_other_threads_is_another_artifact():
    def key(threads):
        return Plan.of(candidate({"runtime": {"threads": threads}}, {"backend": "aot_inductor"})).build_key()

    assert len({key(1), key(2), key(None)}) == 3


def test_a_build_is_done_once(tmp_path, monkeypatch):
    done = []
    shop = workshop(tmp_path, monkeypatch, lambda plan: done.append(plan) or "built")
    one = candidate({"backend": "eager"})
    assert shop.build(one) == shop.build(candidate(TUNED, {"backend": "eager"})) == "built"
    assert len(done) == 1
    assert shop.is_built(one)


def test_a_build_that_fails_is_not_tried_again_and_says_why(tmp_path, monkeypatch):
    tried = []

    def build(plan):
        tried.append(plan)
        raise FuseworksError("child:user:timed-out", limit_s=9, doing="compiling.build")

    shop = workshop(tmp_path, monkeypatch, build)
    for _ in range(2):
        with pytest.raises(FuseworksError, match="timed-out"):
            shop.build(candidate({"backend": "eager"}))
    assert len(tried) == 1
    assert "no answer within 9 s" in shop.why_not(candidate({"backend": "eager"}))


def test_a_compiler_that_takes_too_long_needs_more_budget_and_is_no_endless_loop_of_the_models():
    plan = Plan.of(candidate({"backend": "inductor"}))
    with pytest.raises(FuseworksError) as caught, _told_as_a_build(plan):
        raise FuseworksError("child:user:timed-out", limit_s="68", doing="compiling", detail="its log")
    error = caught.value
    assert (error.id, error.detail) == ("compiling:user:timed-out", "its log")
    assert error.message == "inductor did not finish compiling within 68 s."
    assert "--budget" in error.remedy and "loop" not in error.remedy


def test_any_other_end_of_a_compiler_keeps_its_words():
    plan = Plan.of(candidate({"backend": "inductor"}))
    with pytest.raises(FuseworksError, match="child:user:crashed"), _told_as_a_build(plan):
        raise FuseworksError("child:user:crashed", signal="SIGSEGV")


def test_all_passes_together_give_the_graph_of_those_that_applied(tmp_path, monkeypatch):
    site = Site(node="n", reason="done")
    rewrites = [
        Rewrite(pass_="a", applied=[site], nodes_before=2, nodes_after=1, seconds=0),
        Rewrite(pass_="b", nodes_before=1, nodes_after=1, seconds=0),
    ]
    runs = []

    def rewrite(self, passes, timeout_s):
        runs.append(passes)
        return Rewritten(tmp_path / "rewritten.pt2", rewrites)

    monkeypatch.setattr(Workshop, "_rewrite", rewrite)
    shop = Workshop(context(tmp_path), SimpleNamespace(model=tmp_path / "captured.pt2", format="pt2"))
    every = shop.rewrite(None)
    assert shop.rewrite(Plan.of(candidate({"pass": "a"}, {"backend": "eager"})).passes) is every
    assert shop.rewrite(()).model == tmp_path / "captured.pt2"
    assert runs == [None]


@pytest.mark.parametrize(
    ("target", "format", "matched_only"),
    [
        ("cpu", "pt2", ["fuse_operations", "skip_padded_rows"]),  # the run has two threads
        ("cuda:sm_90", "pt2", ["skip_padded_rows"]),
        ("cpu", "onnx", []),
    ],
)
def test_passes_of_another_kind_of_target_say_what_they_find_and_leave_the_graph_alone(
    tmp_path, monkeypatch, target, format, matched_only
):
    shop = Workshop(context(tmp_path), SimpleNamespace(model=tmp_path / "captured.pt2", format=format))
    shop.context.spec = shop.context.spec.model_copy(update={"target": target})
    assert shop._matched_only() == matched_only
    rewrites = [
        Rewrite(pass_=name, applied=[Site(node="n", reason="done")], nodes_before=2, nodes_after=1, seconds=0)
        for name in ("a", "fuse_operations")
    ]
    monkeypatch.setattr(Workshop, "_rewrite", lambda *_: Rewritten(tmp_path / "rewritten.pt2", rewrites))
    every = shop.rewrite(None)
    alone = shop.rewrite(Plan.of(candidate({"pass": "a"}, {"backend": "eager"})).passes)
    assert (alone is every) == ("fuse_operations" in matched_only)


def test_builds_ahead_swallow_no_error_and_cancel_what_had_not_begun(tmp_path, monkeypatch):
    def build(plan):
        if plan.backend.backend == "broken":
            raise FuseworksError("child:user:crashed", signal="SIGSEGV")
        return SimpleNamespace(reused=plan.backend.backend == "known")

    events = []
    shop = workshop(tmp_path, monkeypatch, build)
    shop.context = context(tmp_path, events)
    builds = Builds(SimpleNamespace(context=shop.context, shop=shop))
    good, bad = candidate({"backend": "good"}, name="good"), candidate({"backend": "broken"}, name="bad")
    known = candidate({"backend": "known"}, name="known")
    builds.submit([good, bad, known])
    builds.wait([good, bad, known], deadline=time.monotonic() + 30)
    builds.close()
    assert builds.ended(good) and builds.ended(bad)
    assert not builds.ended(candidate({"backend": "never"}, name="never"))
    told = sorted(e.message for e in events)
    assert told == [
        "Built good",
        "bad: The process running the model died of SIGSEGV.",
        "known is there from an earlier run",
    ]
    with pytest.raises(FuseworksError, match="crashed"):
        shop.build(bad)
