"""Purpose `inspect`: what is in the upload, how it may be called, which rewrites its graph invites. Times nothing."""

from __future__ import annotations

from pathlib import Path

from optimizer.coordinator.answer import Answer
from optimizer.coordinator.capture import capture
from optimizer.coordinator.context import RunContext
from optimizer.coordinator.rewriting import match_passes
from optimizer.coordinator.workshop import Workshop
from optimizer.diagnosing.base import Evidence, diagnose


def inspect(context: RunContext, answer: Answer) -> None:
    captured = capture(context, Path(context.spec.model), context.spec.workload)
    answer.workload, answer.inspection = captured.workload, captured.inspection
    with context.events.stage("optimizing", "Matching every pass against the graph"):
        answer.rewrites = match_passes(context, Workshop(context, captured), answer)
    answer.findings = diagnose(
        Evidence(
            profile=None,
            rewrites=answer.rewrites,
            dynamic_batch=bool(captured.workload.dims),
            notes=captured.inspection.notes,
            outline=captured.outline,
            workload=captured.workload,
            samples=captured.samples,
        )
    )
    applied = [rewrite.pass_ for rewrite in answer.rewrites if rewrite.applied]
    answer.summary = (
        f"{captured.inspection.parameters:,} parameters, {sum(captured.inspection.operations.values())} operations; "
        + (f"rewrites that fit: {', '.join(applied)}" if applied else "no rewrite of ours fits this graph")
    )
