"""The answer as it grows: what is known so far becomes a Result at any moment, so that a late failure loses nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from optimizer.coordinator.context import RunContext
from optimizer.coordinator.front import front
from optimizer.diagnosing.realised import checked_gains
from optimizer.errors import FuseworksError
from optimizer.result import (
    AblationRow,
    Artifact,
    BestPeer,
    ComparedAs,
    Comparison,
    Conditions,
    Diagnosis,
    Evaluation,
    Finalist,
    Finding,
    FirstComparison,
    Inspection,
    JudgedPeer,
    LayerPlan,
    LimitCheck,
    OutputNumerics,
    Prediction,
    Problem,
    Profile,
    Result,
    Rewrite,
    RunStatus,
    Verdict,
)
from optimizer.spec import Precision, Purpose, Workload

OF_ONE_MODEL = {Purpose.OPTIMIZE, Purpose.REPLAY}


@dataclass
class Answer:
    """Filled by the stages; `result` reads it."""

    summary: str = ""
    workload: Workload | None = None
    inspection: Inspection | None = None
    predicted: Prediction | None = None
    diagnosis: Diagnosis | None = None
    profile: Profile | None = None
    profile_after: Profile | None = None
    not_profiled_because: str = ""
    findings: list[Finding] = field(default_factory=list)
    recoverable_share: tuple[float, float] | None = None
    finalists: list[Finalist] = field(default_factory=list)
    rewrites: list[Rewrite] = field(default_factory=list)
    evaluations: dict[str, Evaluation] = field(default_factory=dict)
    comparisons: list[Comparison] = field(default_factory=list)
    first_comparison: FirstComparison | None = None
    layer_plans: list[LayerPlan] = field(default_factory=list)
    ablation: list[AblationRow] = field(default_factory=list)
    numerics: list[OutputNumerics] = field(default_factory=list)
    limits: list[LimitCheck] = field(default_factory=list)
    precisions: list[Precision] = field(default_factory=list)
    winner: str | None = None
    offered: bool = False
    best_peer: BestPeer | None = None
    judged_peers: list[JudgedPeer] = field(default_factory=list)
    baseline_ms: float | None = None
    best_ms: float | None = None
    same_settings: Comparison | None = None
    as_deployed: Comparison | None = None
    over_best_peer: Comparison | None = None
    conditions: Conditions | None = None
    compared_as: ComparedAs | None = None
    recipe: dict[str, Any] | None = None
    recipe_digest: str | None = None
    accepted: bool | None = None
    not_accepted_because: str = ""
    artifacts: list[Artifact] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    samples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def note(self, context: RunContext, text: str) -> None:
        """Something the reader must know that belongs to no other field; told at once, too."""
        self.notes.append(text)
        context.events.emit("log", text)

    def file(self, evaluation: Evaluation) -> None:
        self.evaluations[evaluation.candidate.name] = evaluation

    def latencies(self) -> dict[str, list[float]]:
        """Milliseconds of every timed call by contender, for the distribution in the report."""
        return {
            name: [ns / 1e6 for process in processes for burst in process["calls_ns"] for ns in burst]
            for name, processes in self.samples.items()
        }

    def result(self, context: RunContext, status: RunStatus, error: FuseworksError | None = None) -> Result:
        same, deployed = self.same_settings, self.as_deployed
        verdict: Verdict | None = same.verdict if same else None
        found = Result(
            purpose=context.spec.purpose,
            status=status,
            summary=self.summary or (error.message if error else ""),
            baseline_ms=self.baseline_ms,
            best_ms=self.best_ms,
            speedup=same.speedup if same else None,
            speedup_ci=same.interval if same else None,
            speedup_as_deployed=deployed.speedup if deployed else None,
            speedup_as_deployed_ci=deployed.interval if deployed else None,
            verdict=verdict,
            best_peer=self.best_peer,
            speedup_over_best_peer=self.over_best_peer.speedup if self.over_best_peer else None,
            judged_peers=self.judged_peers,
            winner=self.winner,
            offered=self.offered,
            limits=self.limits,
            precisions=self.precisions,
            numerics=self.numerics,
            candidates=list(self.evaluations.values()),
            rewrites=self.rewrites,
            layer_plans=self.layer_plans,
            ablation=self.ablation,
            comparisons=self.comparisons,
            first_comparison=self.first_comparison,
            first_comparison_s=self.first_comparison.at_s if self.first_comparison else None,
            front=front(self.evaluations, self.comparisons) if context.spec.purpose in OF_ONE_MODEL else [],
            findings=self.findings,
            recoverable_share=self.recoverable_share,
            finalists=self.finalists,
            profile=self.profile,
            profile_after=self.profile_after,
            not_profiled_because=self.not_profiled_because,
            inspection=self.inspection,
            predicted=self.predicted,
            diagnosis=self.diagnosis,
            workload=self.workload,
            conditions=self.conditions,
            compared_as=self.compared_as,
            recipe=self.recipe,
            recipe_digest=self.recipe_digest,
            accepted=self.accepted,
            not_accepted_because=self.not_accepted_because,
            artifacts=self.artifacts,
            notes=self.notes,
            problem=Problem.model_validate(error.document()) if error else None,
            sandbox=context.sandbox,
            seed=context.seed,
            artifacts_built=context.artifacts_built,
            artifacts_reused=context.artifacts_reused,
            elapsed_s=round(context.events.elapsed_s(), 3),
            stages_s={stage: round(seconds, 3) for stage, seconds in context.events.stages_s.items()},
        )
        found.checked_gains = checked_gains(found) if found.purpose is Purpose.OPTIMIZE else []
        return found
