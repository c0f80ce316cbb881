"""Runs with the result documents of real runs, and documents of comparisons with numbers to work out by hand."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fuseworks.accounts.models import Team
from fuseworks.core.storage import store
from fuseworks.registry.models import ModelVersion
from fuseworks.results.services import result_store
from fuseworks.runs.models import Artifact, Run
from optimizer.result import Result
from tests.platform.factories import make_model, make_run, make_team, make_version

DOCUMENTS = Path(__file__).parent / "documents"
RECIPE: dict[str, Any] = {
    "apiVersion": "fuseworks.io/v1",
    "kind": "Recipe",
    "metadata": {"name": "din-openvino", "version": "1.0.0"},
    "applies_to": {"target": {"kind": "cpu"}},
    "steps": [{"pass": "merge_embedding_tables"}, {"backend": "openvino"}],
}
BEFORE, AFTER = b"class Model: before\n", b"class Model: after\n"


def document(name: str) -> dict[str, Any]:
    """A fresh copy of a stored document."""
    found: dict[str, Any] = json.loads((DOCUMENTS / f"{name}.json").read_text())
    return found


def result(name: str) -> Result:
    return Result.model_validate(document(name))


def finished_run(found: dict[str, Any], version: ModelVersion | None = None, **fields: Any) -> Run:
    """A run that ended with this document, filed as a worker's answer is."""
    version = version or make_version(make_model(make_team(), name="DIN"), filename="din.py")
    run = make_run(version, **{"status": found["status"], "purpose": found["purpose"], **fields})
    result_store(run=run, result=Result.model_validate(found))
    return Run.objects.get(pk=run.pk)


def two_versions(team: Team | None = None) -> tuple[ModelVersion, ModelVersion]:
    """The version before and the one after it, of one model, with contents of their own."""
    model = make_model(team or make_team(), name="DIN")
    return make_version(model, BEFORE), make_version(model, AFTER)


def compared(
    base: ModelVersion, *, low: float, high: float, verdict: str = "cannot_tell", **fields: Any
) -> dict[str, Any]:
    """A comparison whose base is `base`: speedup = the base's time / the other's time, the interval's middle on a
    logarithmic scale."""
    found = document("compare")
    found["inspection"]["sha256"] = base.sha256
    comparison = found["comparisons"][0]
    comparison.update(
        speedup=math.sqrt(low * high), interval={"low": low, "high": high, "confidence": 0.99}, verdict=verdict
    )
    found.update(
        speedup=comparison["speedup"],
        speedup_ci=comparison["interval"],
        speedup_as_deployed=comparison["speedup"],
        speedup_as_deployed_ci=comparison["interval"],
        verdict=verdict,
        **fields,
    )
    return found


def packaging_run(
    version: ModelVersion,
    *,
    artifacts: Sequence[str] = ("package", "recipe"),
    workload_name: str = "serving",
    **fields: Any,
) -> Run:
    """A run of the version that found RECIPE and left these artifacts; finished unless `status` says otherwise."""
    found = document("din")
    found["artifacts"] = [{"name": name, "path": name, "size_bytes": 1, "sha256": "0" * 64} for name in artifacts]
    found["recipe"] = RECIPE
    found["workload"]["name"] = workload_name
    return finished_run(found, version, **fields)


def keep_file(run: Run, name: str, content: bytes) -> Artifact:
    stored = store(io.BytesIO(content), prefix="artifacts")
    return Artifact.objects.create(
        run=run,
        attempt=run.attempt,
        name=name,
        size_bytes=stored.size_bytes,
        sha256=stored.sha256,
        storage_key=stored.key,
    )
