"""What a run answers: one document for the command line, the API and the pages; and the events while it works.

A contract: whoever reads a result imports from here, never from the modules below.
"""

from optimizer.predicting.document import Prediction
from optimizer.profiling.document import (
    GraphNode,
    MemoryOwner,
    MemoryTimeline,
    Operation,
    Phase,
    PhaseSpan,
    Profile,
)
from optimizer.result.base import ComparedAs, EvaluationStatus, Model, Problem, RunStatus, Stage, Verdict
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
from optimizer.result.diagnosis import Diagnosis, TracedRank
from optimizer.result.document import SCHEMA_VERSION, Result
from optimizer.result.evaluation import Candidate, Evaluation, Performance, Rewrite, Site
from optimizer.result.event import Event
from optimizer.result.gains import CheckedGain, Finalist, GainEvidence, RealisedGain
from optimizer.result.inspection import Artifact, Conditions, Finding, Inspection, PredictedGain
from optimizer.result.layer import LayerPlan, LayerPrecision
from optimizer.result.task_metric import TaskMetric
from optimizer.result.verification import ColumnNumerics, Convergence, OutputNumerics, Probe, Verification

__all__ = [
    "SCHEMA_VERSION",
    "AblationRow",
    "Artifact",
    "BestPeer",
    "Candidate",
    "CheckedGain",
    "ColumnNumerics",
    "ComparedAs",
    "Comparison",
    "Conditions",
    "Convergence",
    "Diagnosis",
    "Evaluation",
    "EvaluationStatus",
    "Event",
    "Finalist",
    "Finding",
    "FirstComparison",
    "FrontPoint",
    "GainEvidence",
    "GraphNode",
    "Inspection",
    "Interval",
    "JudgedPeer",
    "LayerPlan",
    "LayerPrecision",
    "LimitCheck",
    "MemoryOwner",
    "MemoryTimeline",
    "Model",
    "Operation",
    "OutputNumerics",
    "Performance",
    "Phase",
    "PhaseSpan",
    "PredictedGain",
    "Prediction",
    "Probe",
    "Problem",
    "Profile",
    "RealisedGain",
    "Result",
    "Rewrite",
    "RunStatus",
    "Site",
    "Stage",
    "TaskMetric",
    "TracedRank",
    "Verdict",
    "Verification",
]
