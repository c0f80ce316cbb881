"""A result for programs: the answer of the API, and a table of its candidates as CSV. Nothing is rounded."""

from __future__ import annotations

import csv
import io
from typing import Any

from fuseworks.core.exporting import cell
from fuseworks.registry.models import ModelVersion
from fuseworks.results import operation_exports
from fuseworks.results.models import RunResult
from fuseworks.results.reading import predicted
from fuseworks.results.reading.headline import as_deployed, equal_settings, over_best_peer
from fuseworks.results.reading.tables import candidates
from fuseworks.results.sides import Ratio, sides
from fuseworks.runs.models import Run
from optimizer.result import Comparison, Result

PERFORMANCE = (
    "median_ms",
    "mean_ms",
    "p90_ms",
    "p99_ms",
    "throughput_per_s",
    "peak_memory_bytes",
    "page_faults_per_call",
    "compile_s",
    "load_s",
    "artifact_bytes",
    "inference_precision",
    "calls",
    "processes",
)
COLUMNS = (
    "run",
    "model",
    "version",
    "purpose",
    "candidate",
    "role",
    "status",
    "reason",
    "steps",
    "screened_speedup",
    "judged_speedup",
    "judged_speedup_low",
    "judged_speedup_high",
    "judged_confidence",
    "judged_verdict",
    *PERFORMANCE,
    "figures_are_screened",
    "max_error",
    "numerics_passed",
)


def as_json(run: Run, stored: RunResult, result: Result, *, against: ModelVersion | None) -> dict[str, Any]:
    """The run, its headline, the table of its operations, what is predicted, and the document as it was written.

    `against`: as the reader may see it; without it the document tells nothing of what was found in that upload.
    """
    document = stored.document
    if run.against_id is not None and against is None:
        document = {**document, "inspection": None}
    facts = run_facts(run, against=against)
    table = operation_exports.as_json(result)
    return {
        "run": facts,
        "headline": headline(run, stored, result),
        "operations": table,
        "predicted": predicted.as_json(result.predicted),
        "document": document,
    }


def run_facts(run: Run, *, against: ModelVersion | None) -> dict[str, Any]:
    facts = {
        "id": str(run.pk),
        "team": run.team.slug,
        "model": str(run.version.model_id),
        "model_name": run.version.model.name,
        "version": str(run.version_id),
        "version_number": run.version.number,
        "purpose": run.purpose,
        "status": run.status,
        "target": run.target,
        "ended_at": run.ended_at.isoformat() if run.ended_at else None,
        "against": str(against.pk) if against is not None else None,
        "against_number": against.number if against is not None else None,
        "compared_as": run.compared_as,
    }
    return facts


def headline(run: Run, stored: RunResult, result: Result) -> dict[str, Any]:
    """The figures that a pipeline reads, each with its interval. Of a `compare` run as its version sees it."""
    seen = sides(run, result)
    judged = seen.comparison if seen else equal_settings(result)
    deployed, over = as_deployed(result), over_best_peer(result)
    peer = result.best_peer
    return {
        "verdict": stored.verdict or None,
        "speedup": stored.speedup,
        "speedup_ci": _interval(seen.speedup) if seen else _dumped(result.speedup_ci if stored.speedup else None),
        "speedup_as_deployed": stored.speedup_as_deployed,
        "speedup_as_deployed_ci": _dumped(result.speedup_as_deployed_ci if stored.speedup_as_deployed else None),
        "verdict_as_deployed": deployed.verdict.value if deployed else None,
        "baseline_ms": stored.baseline_ms,
        "best_ms": stored.best_ms,
        "winner": stored.winner or None,
        "best_peer": _dumped(peer),
        "speedup_over_best_peer": result.speedup_over_best_peer,
        "verdict_over_best_peer": over.verdict.value if over else None,
        "latency_ratio": seen.latency_ratio.value if seen else None,
        "latency_ratio_ci": _interval(seen.latency_ratio) if seen else None,
        "noise_floor": judged.noise_floor if judged else None,
        "pairs": judged.pairs if judged else None,
        "looks": judged.looks if judged else None,
        "fingerprint": stored.fingerprint or None,
        "recipe_digest": result.recipe_digest,
        "summary": result.summary,
    }


def as_csv(run: Run, result: Result) -> str:
    """One row a candidate; judged figures stand beside the screened ones, in columns of their own."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    judged = {one.other: one for one in reversed(result.comparisons) if one.base == "baseline"}
    for row in candidates(result):
        evaluation, performance = row.evaluation, row.evaluation.performance
        outputs = evaluation.verification.outputs if evaluation.verification else []
        figures: dict[str, Any] = {
            "run": str(run.pk),
            "model": run.version.model.name,
            "version": run.version.number,
            "purpose": run.purpose,
            "candidate": evaluation.candidate.name,
            "role": row.role,
            "status": evaluation.status.value,
            "reason": evaluation.reason or "",
            "steps": "; ".join(map(str, row.steps)),
            "screened_speedup": evaluation.screened_speedup,
            **_judged(judged.get(evaluation.candidate.name)),
            **({name: getattr(performance, name) for name in PERFORMANCE} if performance else {}),
            "figures_are_screened": performance.screened if performance else None,
            "max_error": max((one.error for one in outputs), default=None),
            "numerics_passed": evaluation.verification.passed if evaluation.verification else None,
        }
        writer.writerow({key: cell(value) for key, value in figures.items()})
    return out.getvalue()


def _judged(comparison: Comparison | None) -> dict[str, Any]:
    if comparison is None:
        return {}
    return {
        "judged_speedup": comparison.speedup,
        "judged_speedup_low": comparison.interval.low,
        "judged_speedup_high": comparison.interval.high,
        "judged_confidence": comparison.interval.confidence,
        "judged_verdict": comparison.verdict.value,
    }


def _interval(ratio: Ratio) -> dict[str, float]:
    return {"low": ratio.low, "high": ratio.high, "confidence": ratio.confidence}


def _dumped(model: Any) -> dict[str, Any] | None:
    return model.model_dump(mode="json", by_alias=True) if model is not None else None
