"""What a run answers: one document for the command line, the API and the pages; and the events while it works."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from optimizer.profiling.document import GraphNode as GraphNode
from optimizer.profiling.document import Operation as Operation
from optimizer.profiling.document import Profile as Profile
from optimizer.spec import Precision, Purpose, Step, Workload

SCHEMA_VERSION = "1.0"


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


class Site(Model):
    """One place of the graph where a pass did something or refused to."""

    node: str
    source: str | None = Field(default=None, description="file:line of the user's code, when known")
    reason: str = Field(description="what was done, or why it was refused")


class Rewrite(Model):
    """What one pass did to one graph."""

    pass_: str = Field(alias="pass")
    options: dict[str, Any] = Field(default_factory=dict)
    applied: list[Site] = Field(default_factory=list)
    refused: list[Site] = Field(default_factory=list)
    numerics: Literal["exact", "reassociates"] = "exact"
    nodes_before: int
    nodes_after: int
    seconds: float


class Performance(Model):
    """Latency of one contender over all its processes. Times in milliseconds of one call."""

    median_ms: float
    mean_ms: float
    p90_ms: float
    p99_ms: float
    calls: int
    processes: int
    throughput_per_s: float = Field(description="samples (first dimension of the first input) a second, one caller")
    peak_memory_bytes: int | None = Field(default=None, description="RSS above the state after import")
    page_faults_per_call: float | None = None
    load_s: float | None = None
    compile_s: float | None = None
    artifact_bytes: int | None = None
    inference_precision: str | None = None
    screened: bool = Field(default=False, description="a cheap first measurement, not the judged one")


class ColumnNumerics(Model):
    """The column of an output that is nearest to what it is allowed, judged by its own yardstick."""

    column: int
    error: float
    allowed: float
    yardstick: Literal["spread", "size", "unit"]


class OutputNumerics(Model):
    """Errors of one output against the float64 reference: centred relative L2, pooled over `samples` items."""

    output: str
    dtype: str
    error: float
    baseline_error: float
    allowed: float
    max_abs_error: float
    samples: int
    passed: bool
    reason: str | None = None
    yardstick: Literal["spread", "size", "unit", "places"] = Field(
        default="spread",
        description="what errors are shares of: the output's spread; its size when it is constant; 1 when it is zero; "
        "for integers the number of places",
    )
    worst_column: ColumnNumerics | None = Field(
        default=None, description="of a float output with 2 to 64 columns, which are judged one by one as well"
    )
    inputs: Literal["drawn", "captured"] = Field(
        default="drawn", description="captured: on the workload's samples, which are judged by their own spread"
    )


class Probe(Model):
    """One extra input set tried in verification, or a negative control."""

    name: str
    kind: Literal["random", "sizes", "edge", "mutation", "held_output", "negative_control", "repeat"]
    passed: bool
    judged: bool = Field(
        default=True, description="false: it could not be asked, `reason` says why, and it holds nothing"
    )
    reason: str | None = None


class Verification(Model):
    passed: bool
    outputs: list[OutputNumerics] = Field(default_factory=list)
    probes: list[Probe] = Field(default_factory=list)
    reason: str | None = None
    first_diverging: str | None = None


class Candidate(Model):
    """A plan: ordered steps. `name` is short and unique within the run."""

    name: str
    steps: list[Step]
    peer: bool = Field(default=False, description="an engine without our rewrites")
    why: str = Field(default="", description="what made the planner propose it")


class Evaluation(Model):
    """The outcome of one candidate. Performance only when it passed: no speed-up without correct numerics."""

    candidate: Candidate
    status: EvaluationStatus
    reason: str | None = None
    problem: Problem | None = None
    verification: Verification | None = None
    performance: Performance | None = None
    screened_speedup: float | None = Field(
        default=None, description="against the baseline in the screening; no verdict"
    )

    @model_validator(mode="after")
    def _performance_needs_correctness(self) -> Evaluation:
        if self.status != EvaluationStatus.PASSED and (
            self.performance is not None or self.screened_speedup is not None
        ):
            raise ValueError(f"a candidate that is {self.status} carries no performance")
        if self.status != EvaluationStatus.PASSED and not self.reason:
            raise ValueError(f"a candidate that is {self.status} needs a reason")
        return self


class Interval(Model):
    low: float
    high: float
    confidence: float = 0.99


class Comparison(Model):
    """Two contenders measured together in fresh processes. `speedup` is base time / other time."""

    base: str
    other: str
    speedup: float
    interval: Interval
    verdict: Verdict
    noise_floor: float
    pairs: int
    looks: int
    same_settings: bool
    reason: str | None = Field(default=None, description="why there is no verdict, beside the interval's width")
    log_speedups: list[float] = Field(description="one per pair of fresh processes")


class AblationRow(Model):
    """What the winner loses without one step: time without it / time with it."""

    step: dict[str, Any]
    measured_on: str | None = Field(
        default=None,
        description="the candidate of which the winner is a part, where the step was left out of that one instead",
    )
    gain: float | None = None
    interval: Interval | None = None
    verdict: Verdict | None = None
    noise_floor: float | None = Field(
        default=None, description="how far the winner may seem to differ from itself in as many pairs"
    )
    pairs: int = 0
    reason: str | None = Field(default=None, description="why it was not measured")


class BestPeer(Model):
    name: str
    speedup: float = Field(description="baseline time / best peer's time")
    interval: Interval
    best_ms: float = Field(description="median of single calls")


class JudgedPeer(BestPeer):
    """A peer in the judgement. The best one is chosen by these figures, so that its own is a selection's."""

    precision: Precision
    winner_speedup: float | None = Field(default=None, description="its time / winner's time; null: it is the winner")
    winner_interval: Interval | None = None
    winner_verdict: Verdict | None = None
    as_run: Comparison | None = Field(default=None, description="the winner over it in default settings")
    error: float | None = Field(default=None, description="of its output that comes nearest to what is `allowed`")
    allowed: float | None = None


class LimitCheck(Model):
    """One limit of the workload, and what the judgement measured of winner and baseline; null where nothing was."""

    name: Literal["latency_ms", "peak_memory_bytes", "max_error"]
    limit: float
    winner: float | None = None
    winner_kept: bool | None = None
    baseline: float | None = None
    baseline_kept: bool | None = None


class Conditions(Model):
    """What must be equal for two results to be compared; `fingerprint` is the digest of `fixed`."""

    fixed: dict[str, Any] = Field(description="device, isa, cores, library versions, threads, settings")
    observed: dict[str, Any] = Field(default_factory=dict, description="load, clocks, noise")
    fingerprint: str


class Finding(Model):
    rule: str
    severity: Literal["high", "medium", "low", "info"]
    title: str
    evidence: dict[str, Any] = Field(default_factory=dict)
    remedy: str = ""


class Inspection(Model):
    """What is in the upload."""

    format: Literal["pt2", "py", "zip", "onnx"]
    sha256: str
    size_bytes: int
    parameters: int
    parameter_bytes: int
    operations: dict[str, int] = Field(default_factory=dict)
    outputs: list[dict[str, Any]] = Field(default_factory=list)
    dynamic: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    id_rows: dict[str, list[int | None]] = Field(default_factory=dict, description="rows that each column indexes")


class Artifact(Model):
    name: str
    path: str
    size_bytes: int
    sha256: str


class Result(Model):
    """The whole answer. The first block is what a CI pipeline reads."""

    schema_version: str = SCHEMA_VERSION
    purpose: Purpose
    status: RunStatus
    summary: str = ""
    baseline_ms: float | None = Field(
        default=None, description="median of single calls; the speedup is no quotient of medians"
    )
    best_ms: float | None = Field(default=None, description="median of single calls of the winner")
    speedup: float | None = Field(default=None, description="same runtime settings on both sides")
    speedup_ci: Interval | None = None
    speedup_as_deployed: float | None = Field(default=None, description="baseline in its default settings")
    speedup_as_deployed_ci: Interval | None = None
    verdict: Verdict | None = None
    best_peer: BestPeer | None = None
    speedup_over_best_peer: float | None = None
    judged_peers: list[JudgedPeer] = Field(default_factory=list, description="all that were judged, fastest first")
    winner: str | None = Field(default=None, description="the best candidate that was judged, offered or not")
    offered: bool = Field(
        default=False,
        description="whether something is offered to be deployed: a winner judged faster under equal settings and not "
        "slower as deployed, whose recipe is in `recipe` (and in `artifacts`, with its package unless a note says why "
        "there is none); of a replay, that it was accepted. False: winner and best_ms are measurements only",
    )
    limits: list[LimitCheck] = Field(default_factory=list, description="those that the workload states")
    precisions: list[Precision] = Field(
        default_factory=list, description="searched: what policy and workload both allow; empty where nothing is"
    )
    numerics: list[OutputNumerics] = Field(default_factory=list)
    candidates: list[Evaluation] = Field(default_factory=list)
    rewrites: list[Rewrite] = Field(default_factory=list)
    ablation: list[AblationRow] = Field(default_factory=list)
    comparisons: list[Comparison] = Field(default_factory=list)
    findings: list[Finding] = Field(default_factory=list)
    profile: Profile | None = Field(default=None, description="of the baseline, in its default settings")
    profile_after: Profile | None = Field(
        default=None,
        description="of the winner, after it was judged and in a process of its own: its times are not the judged ones",
    )
    not_profiled_because: str = Field(default="", description="why a winner that was judged has no profile")
    inspection: Inspection | None = None
    workload: Workload | None = None
    conditions: Conditions | None = None
    compared_as: ComparedAs | None = Field(default=None, description="compare: packaged by `recipe`, or as uploaded")
    recipe: dict[str, Any] | None = Field(
        default=None, description="what was found, of a replay what was replayed, of a comparison what packaged both"
    )
    recipe_digest: str | None = None
    accepted: bool | None = Field(default=None, description="replay: whether the recipe did what it asks of itself")
    not_accepted_because: str = ""
    artifacts: list[Artifact] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list, description="what a reader must know besides: things left out")
    problem: Problem | None = None
    sandbox: str = Field(default="", description="bubblewrap, landlock, or none (trusted)")
    seed: int | None = None
    elapsed_s: float = 0.0
    stages_s: dict[str, float] = Field(default_factory=dict)


class Event(Model):
    """One line while a run works. `kind` is the stage's name, or `log`, `finished`."""

    kind: Literal[
        "capturing",
        "profiling",
        "diagnosing",
        "optimizing",
        "compiling",
        "verifying",
        "benchmarking",
        "log",
        "finished",
    ]
    at_s: float = Field(description="seconds since the run began")
    budget_s: float
    message: str
    candidate: str | None = None
    done: int | None = None
    total: int | None = None
    data: dict[str, Any] = Field(default_factory=dict)
