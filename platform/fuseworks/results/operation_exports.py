"""The operation table for programs: JSON with positions in the document's profiles, CSV with all of it. Not rounded."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from fuseworks.core.exporting import cell
from fuseworks.results.reading import operations
from fuseworks.runs.models import Run
from optimizer.result import Operation, Profile, Result

COLUMNS = (
    "run",
    "model",
    "version",
    "purpose",
    "row",
    "found_in",
    "side",
    "candidate",
    "operation",
    "module",
    "source",
    "calls_per_call",
    "self_ms",
    "share",
    "flops",
    "bytes",
    "attainable_share",
    "shapes",
    "dtypes",
    "nodes",
    "profiled_call_ms",
    "unprofiled_call_ms",
    "how_obtained",
)


def as_json(result: Result) -> dict[str, Any]:
    """`before` and `after` are positions in the operations of `profile` and `profile_after`."""
    why = operations.why_no_after(result)
    table = [
        {"found_in": row.found.value, "before": row.before.positions, "after": row.after.positions}
        for row in operations.rows(result)
    ]
    return {"rows": table, "no_after": why.value if why is not None else None}


def as_csv(run: Run, result: Result) -> str:
    """One line an operation; what belongs together has one `row`."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    profiles = {"before": result.profile, "after": result.profile_after}
    for number, row in enumerate(operations.rows(result), 1):
        for side, of_row in (("before", row.before), ("after", row.after)):
            profile = profiles[side]
            for operation in of_row.operations:
                facts = {
                    "run": str(run.pk),
                    "model": run.version.model.name,
                    "version": run.version.number,
                    "purpose": run.purpose,
                    "row": number,
                    "found_in": row.found.value,
                    "side": side,
                    **_of_operation(operation),
                    **(_of_profile(profile) if profile is not None else {}),
                }
                writer.writerow({key: cell(value) for key, value in facts.items()})
    return out.getvalue()


def _of_operation(operation: Operation) -> dict[str, Any]:
    return {
        "operation": operation.op,
        "module": operation.module,
        "source": operation.source,
        "calls_per_call": operation.calls,
        "self_ms": operation.self_ms,
        "share": operation.share,
        "flops": operation.flops,
        "bytes": operation.bytes,
        "attainable_share": operation.attainable_share,
        "shapes": json.dumps(operation.shapes) if operation.shapes else "",
        "dtypes": " ".join(operation.dtypes),
        "nodes": " ".join(node.node for node in operation.nodes),
    }


def _of_profile(profile: Profile) -> dict[str, Any]:
    return {
        "candidate": profile.candidate,
        "profiled_call_ms": profile.profiled_ms,
        "unprofiled_call_ms": profile.unprofiled_ms,
        "how_obtained": profile.how_obtained,
    }
