"""A run's result as the diagnosis that it holds: so that a stored run exports as `fuseworks diagnose` does."""

from __future__ import annotations

from typing import Any

from optimizer.diagnosing.diagnosis import Diagnosis
from optimizer.result import MemoryTimeline, Profile, Result


def diagnosis_of(result: Result, name: str) -> Diagnosis:
    """`name`: of the upload. A run that failed has its problem, and no facts."""
    answer = Diagnosis(
        of=[name],
        findings=result.findings,
        recoverable_share=result.recoverable_share,
        notes=result.notes,
        sandbox=result.sandbox,
        conditions=result.conditions,
        problem=result.problem,
    )
    if result.problem is None:
        answer.summary, answer.facts, answer.profile = result.summary, _facts(result), result.profile
    return answer


def _facts(result: Result) -> dict[str, Any]:
    """Of the baseline's profile and the graph; a model that could not be profiled has only the latter."""
    found: dict[str, Any] = {}
    if result.inspection is not None:
        found |= {
            "parameters": result.inspection.parameters,
            "parameter_bytes": result.inspection.parameter_bytes,
            "operations": sum(result.inspection.operations.values()),
            "ops_per_call": dict(result.inspection.operations),
        }
    return found | _profiled(result.profile) if result.profile is not None else found


def _profiled(profile: Profile) -> dict[str, Any]:
    return {
        "call_ms": profile.unprofiled_ms,
        "operations_ms": profile.total_ms,
        "page_faults_per_call": profile.page_faults_per_call,
        "profiling_overhead": profile.overhead,
        "profiling_s": profile.took_s,
        **({f"{phase.name}_ms": phase.ms for phase in profile.phases}),
        **_memory(profile.memory),
    }


def _memory(memory: MemoryTimeline | None) -> dict[str, Any]:
    if memory is None:
        return {}
    return {"resident_bytes": memory.resident_bytes, "call_peak_bytes": memory.peak_bytes}
