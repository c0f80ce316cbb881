"""The whole answer of a run, as `result.json` holds it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from optimizer.predicting.document import Prediction
from optimizer.profiling.document import Profile
from optimizer.result.base import ComparedAs, Model, Problem, RunStatus, Verdict
from optimizer.result.comparison import (
    AblationRow,
    BestPeer,
    Comparison,
    FirstComparison,
    FrontPoint,
    Interval,
    JudgedPeer,
    LimitCheck,
)
from optimizer.result.diagnosis import Diagnosis
from optimizer.result.evaluation import Evaluation, Rewrite
from optimizer.result.gains import CheckedGain, Finalist
from optimizer.result.inspection import Artifact, Conditions, Finding, Inspection
from optimizer.result.layer import LayerPlan
from optimizer.result.verification import OutputNumerics
from optimizer.spec import Precision, Purpose, Workload

SCHEMA_VERSION = "1.0"


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
    layer_plans: list[LayerPlan] = Field(
        default_factory=list, description="which layers of a candidate are in which precision, and why; by candidate"
    )
    ablation: list[AblationRow] = Field(default_factory=list)
    comparisons: list[Comparison] = Field(default_factory=list)
    finalists: list[Finalist] = Field(default_factory=list, description="among whom the winner was chosen")
    first_comparison: FirstComparison | None = None
    first_comparison_s: float | None = Field(default=None, description="when it was told, since the run began")
    front: list[FrontPoint] = Field(
        default_factory=list, description="latency, memory and error of all that passed, and what is dominated by what"
    )
    findings: list[Finding] = Field(default_factory=list)
    diagnosis: Diagnosis | None = Field(default=None, description="diagnose: facts and findings of the traces")
    recoverable_share: tuple[float, float] | None = Field(
        default=None,
        description="least and most of a call's time that all findings together give back; null: nothing was timed",
    )
    checked_gains: list[CheckedGain] = Field(
        default_factory=list, description="what was predicted of the findings' remedies, and what was measured of them"
    )
    profile: Profile | None = Field(default=None, description="of the baseline, in its default settings")
    profile_after: Profile | None = Field(
        default=None,
        description="of the winner, after it was judged and in a process of its own: its times are not the judged ones",
    )
    not_profiled_because: str = Field(default="", description="why a winner that was judged has no profile")
    predicted: Prediction | None = Field(default=None, description="for a device that is not here; nothing was run")
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
    artifacts_built: int = Field(default=0, description="compiled in this run")
    artifacts_reused: int = Field(default=0, description="taken from an earlier run over the same upload, unchanged")
    elapsed_s: float = 0.0
    stages_s: dict[str, float] = Field(default_factory=dict)
