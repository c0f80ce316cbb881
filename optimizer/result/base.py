"""What every part of the result document is made of: strict models, statuses, and an error as data."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class RunStatus(StrEnum):
    """How a run ended. A run that passes its own budget is cut short and `succeeded`; `timed_out` is said by whoever
    runs the coordinator and ended it from outside, such as the platform when a worker's lease or time limit is over."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ERRORED = "errored"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


class ComparedAs(StrEnum):
    """What a comparison measured of both models: the upload as its own framework runs it, or what the steps of one
    recipe make of it."""

    UPLOADED = "uploaded"
    PACKAGED = "packaged"


class Stage(StrEnum):
    CAPTURING = "capturing"
    PROFILING = "profiling"
    DIAGNOSING = "diagnosing"
    OPTIMIZING = "optimizing"
    COMPILING = "compiling"
    VERIFYING = "verifying"
    BENCHMARKING = "benchmarking"


class EvaluationStatus(StrEnum):
    PASSED = "passed"
    INCORRECT_NUMERICS = "incorrect_numerics"
    REFUSED = "refused"
    UNSUPPORTED_BY_BACKEND = "unsupported_by_backend"
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    OUT_OF_MEMORY = "out_of_memory"
    TIMED_OUT = "timed_out"
    CRASHED = "crashed"
    NOT_TRIED = "not_tried"


class Verdict(StrEnum):
    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    CANNOT_TELL = "cannot_tell"


class Problem(Model):
    """An error as `errors.FuseworksError.document()` gives it."""

    id: str
    side: Literal["user", "ours", "usage"]
    message: str
    place: str | None = None
    remedy: str = ""
    detail: str | None = None
    context: dict[str, Any] = Field(default_factory=dict)
