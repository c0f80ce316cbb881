"""A wrong rewrite is found and left out, the others stay; what failed stays in the answer with its reason."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from optimizer.coordinator.answer import Answer
from optimizer.coordinator.evaluate import not_tried
from optimizer.coordinator.rescue import MOST_TRIES, Rescue
from optimizer.optimizing.planner import Facts, Planner, has_passes
from optimizer.result import Evaluation, EvaluationStatus, Rewrite, Site, Verification
from optimizer.spec import PassStep, Policy, RuntimeSettings
from tests.optimizer.coordinator.support import context

LEADER = "aot_inductor + rewrites"
WRONG = EvaluationStatus.INCORRECT_NUMERICS
FAILURES = [WRONG, EvaluationStatus.RUNTIME_ERROR, EvaluationStatus.COMPILE_ERROR, EvaluationStatus.CRASHED]


class Scene:
    """A plan fails while it holds a guilty pass; verification names that pass's node where `tells`."""

    def __init__(self, tmp_path, passes, *guilty, status=WRONG, tells=False, tries=99, at_once=1, peer=None):
        self.rewrites = [
            Rewrite(
                pass_=name,
                applied=[Site(node=f"of_{name}", reason="x")],
                nodes_before=9,
                nodes_after=8,
                seconds=0.1,
            )
            for name in passes
        ]
        engines = {"aot_inductor": None, "openvino": None}
        self.planner = Planner(Facts("pt2", "eager", engines, RuntimeSettings(), Policy(), None), self.rewrites)
        self.guilty, self.status, self.tells, self.tries = guilty, status, tells, tries
        self.asked = []
        self.answer = Answer()
        self.bench = SimpleNamespace(answer=self.answer, context=context(tmp_path), verifier=None)
        self.rescue = Rescue(self.bench, self.planner, self.try_out, at_once)
        self.first = self.planner.first_rewritten()
        self.evaluate(self.first[0])
        alone = next(c for c in self.planner.peers() if c.name == "aot_inductor")
        status = peer or EvaluationStatus.PASSED
        reason = None if status == EvaluationStatus.PASSED else "wrong alone"
        self.answer.file(Evaluation(candidate=alone, status=status, reason=reason))

    def evaluate(self, candidate):
        names = [step.pass_ for step in candidate.steps if isinstance(step, PassStep)]
        bad = next((name for name in names if name in self.guilty), None)
        if bad is None:
            self.answer.file(Evaluation(candidate=candidate, status=EvaluationStatus.PASSED, screened_speedup=2.0))
            return
        told = f"aten.add (of_{bad}, m.py:3)" if self.tells else None
        verification = Verification(passed=False, first_diverging=told) if self.status == WRONG else None
        self.answer.file(
            Evaluation(candidate=candidate, status=self.status, reason="differs", verification=verification)
        )

    def try_out(self, candidates):
        for candidate in candidates:
            self.asked.append(candidate.name.removeprefix(LEADER + " - "))
            if len(self.asked) > self.tries:
                self.answer.file(not_tried(candidate, "no time"))
            else:
                self.evaluate(candidate)

    def run(self):
        self.rescue.run(self.first)
        return [
            e.candidate.name
            for e in self.answer.evaluations.values()
            if e.status == EvaluationStatus.PASSED and has_passes(e.candidate)
        ]


@pytest.mark.parametrize("status", FAILURES)
def test_the_rewrites_are_tried_one_less_until_a_plan_passes(tmp_path, status):
    scene = Scene(tmp_path, ["split", "merge", "fuse"], "merge", status=status)
    assert scene.run() == [f"{LEADER} - merge"]
    assert scene.asked == ["split", "merge"]
    failed = scene.answer.evaluations[LEADER]
    assert (failed.status, failed.reason) == (status, "differs"), "what failed stays in the answer"
    (note,) = scene.answer.notes
    assert note.startswith(f"merge is left out of {LEADER}, which failed with it ({status.value.replace('_', ' ')}).")


def test_the_pass_that_verification_points_at_is_left_out_first_and_for_every_engine(tmp_path):
    scene = Scene(tmp_path, ["split", "merge", "fuse"], "fuse", tells=True)
    assert scene.run() == [f"{LEADER} - fuse"]
    assert scene.asked == ["fuse"]
    assert scene.planner.blamed == {"fuse"}
    assert [step.pass_ for step in scene.planner.passes()] == ["split", "merge"]


def test_where_only_one_engine_is_known_to_fail_the_others_keep_every_rewrite(tmp_path):
    scene = Scene(tmp_path, ["split", "merge"], "merge", status=EvaluationStatus.COMPILE_ERROR)
    assert scene.run() == [f"{LEADER} - merge"]
    assert scene.planner.blamed == set()


def test_two_wrong_passes_are_found_one_behind_the_other(tmp_path):
    scene = Scene(tmp_path, ["split", "merge", "fuse"], "merge", "fuse", tells=True)
    assert scene.run() == [f"{LEADER} - merge - fuse"]
    assert scene.asked == ["merge", "merge - fuse"]
    assert scene.planner.blamed == {"merge", "fuse"}


def test_a_wrong_tidying_pass_is_found_too(tmp_path):
    scene = Scene(tmp_path, ["remove_noops", "split"], "remove_noops")
    assert scene.run() == [f"{LEADER} - tidying"]
    assert scene.asked == ["tidying"], "without its only telling pass the leader is the engine alone"


def test_variants_are_tried_as_many_at_a_time_as_are_built_side_by_side(tmp_path):
    scene = Scene(tmp_path, ["split", "merge", "fuse"], "merge", at_once=2)
    assert scene.run() == [f"{LEADER} - merge"]
    scene = Scene(tmp_path, ["split", "merge", "fuse"], "split", at_once=2)
    assert scene.run() == [f"{LEADER} - split"]
    assert scene.asked == ["split", "merge"], "these two are built side by side, and both evaluated"


def test_an_engine_that_is_wrong_by_itself_is_not_searched(tmp_path):
    scene = Scene(tmp_path, ["split", "merge"], "merge", peer=WRONG)
    assert scene.run() == []
    assert scene.asked == []


@pytest.mark.parametrize(
    "status", [EvaluationStatus.TIMED_OUT, EvaluationStatus.UNSUPPORTED_BY_BACKEND, EvaluationStatus.REFUSED]
)
def test_what_says_nothing_of_a_pass_is_not_searched(tmp_path, status):
    scene = Scene(tmp_path, ["split", "merge"], "merge", status=status)
    scene.run()
    assert scene.asked == []


def test_a_plan_that_passed_is_left_alone(tmp_path):
    scene = Scene(tmp_path, ["split", "merge"])
    assert scene.run() == [LEADER]
    assert scene.asked == scene.answer.notes == []


def test_the_search_ends_with_the_time(tmp_path):
    scene = Scene(tmp_path, ["a", "b", "c", "d"], "d", tries=1)
    assert scene.run() == []
    assert scene.asked == ["a", "b"], "the second is filed as not tried, and no third is asked for"
    assert scene.answer.evaluations[f"{LEADER} - b"].status == EvaluationStatus.NOT_TRIED


def test_the_search_is_bounded_where_no_single_pass_is_guilty(tmp_path):
    names = [f"p{i}" for i in range(12)]
    scene = Scene(tmp_path, names, "p0", "p1")
    assert scene.run() == []
    assert len(scene.asked) == MOST_TRIES
