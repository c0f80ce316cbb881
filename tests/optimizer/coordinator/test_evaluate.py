"""An error ends its candidate with a status that says what kind of end it was."""

from __future__ import annotations

import pytest

from optimizer.coordinator.evaluate import failed, not_tried
from optimizer.errors import FuseworksError
from optimizer.result import Candidate, EvaluationStatus
from optimizer.spec import BackendStep

CANDIDATE = Candidate(name="candidate", steps=[BackendStep(backend="eager")])


@pytest.mark.parametrize(
    ("id_", "status"),
    [
        ("compiling:user:unsupported", EvaluationStatus.UNSUPPORTED_BY_BACKEND),
        ("compiling:user:refused", EvaluationStatus.REFUSED),
        ("compiling:ours:compile-error", EvaluationStatus.COMPILE_ERROR),
        ("child:user:out-of-memory", EvaluationStatus.OUT_OF_MEMORY),
        ("child:user:timed-out", EvaluationStatus.TIMED_OUT),
        ("compiling:user:timed-out", EvaluationStatus.TIMED_OUT),
        ("child:user:crashed", EvaluationStatus.CRASHED),
        ("benchmarking:user:answers-changed", EvaluationStatus.INCORRECT_NUMERICS),
        ("benchmarking:user:memory-limit", EvaluationStatus.OUT_OF_MEMORY),
        ("child:user:exception", EvaluationStatus.RUNTIME_ERROR),
    ],
)
def test_each_kind_of_error_has_its_status_and_keeps_its_words(id_, status):
    evaluation = failed(CANDIDATE, FuseworksError(id_, text="its words", engine="engine"))
    assert evaluation.status == status
    assert evaluation.problem.id == id_
    assert evaluation.performance is None
    assert evaluation.reason == evaluation.problem.message


def test_what_was_not_tried_says_why():
    assert not_tried(CANDIDATE, "no time").reason == "no time"
