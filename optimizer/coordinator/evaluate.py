"""One candidate from plan to evaluation: built, loaded in a fresh process, verified, and only then timed (cheaply)."""

from __future__ import annotations

from optimizer.errors import FuseworksError
from optimizer.result import Candidate, Evaluation, EvaluationStatus, Problem

STATUS_OF_ERROR = {
    "compiling:user:unsupported": EvaluationStatus.UNSUPPORTED_BY_BACKEND,
    "compiling:user:compile-error": EvaluationStatus.COMPILE_ERROR,
    "compiling:ours:compile-error": EvaluationStatus.COMPILE_ERROR,
    "compiling:user:refused": EvaluationStatus.REFUSED,
    "child:user:out-of-memory": EvaluationStatus.OUT_OF_MEMORY,
    "child:user:timed-out": EvaluationStatus.TIMED_OUT,
    "child:user:crashed": EvaluationStatus.CRASHED,
}


def failed(candidate: Candidate, error: FuseworksError) -> Evaluation:
    """The evaluation of a candidate that ended in `error`: a crash ends its candidate, not the run."""
    return Evaluation(
        candidate=candidate,
        status=STATUS_OF_ERROR.get(error.id, EvaluationStatus.RUNTIME_ERROR),
        reason=error.message,
        problem=Problem.model_validate(error.document()),
    )


def not_tried(candidate: Candidate, reason: str) -> Evaluation:
    return Evaluation(candidate=candidate, status=EvaluationStatus.NOT_TRIED, reason=reason)
