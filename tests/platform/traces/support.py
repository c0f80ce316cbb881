"""Traces and diagnoses for the platform's tests: made of small traces, without a worker and without a sandbox."""

from __future__ import annotations

import gzip
import io
import zipfile
from typing import Any

from fuseworks.accounts.models import Team
from fuseworks.registry.models import Model, ModelVersion
from fuseworks.runs.models import Run
from optimizer.coordinator.diagnose import diagnosed
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.result import Diagnosis, Result, RunStatus
from optimizer.spec import Purpose
from tests.optimizer.diagnosing.traces.plants import PLANTS
from tests.optimizer.diagnosing.traces.training import Training
from tests.platform import factories
from tests.platform.results.support import finished_run

TRACE = b'{"traceEvents": []}'
GZIPPED = gzip.compress(TRACE, mtime=0)
NAME = "rank0.json.gz"


def zipped(**members: bytes) -> bytes:
    """`rank0=...` is the entry rank0.json."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.json", data)
    return packed.getvalue()


def make_job(team: Team, name: str = "Nightly") -> Model:
    return Model.objects.create(team=team, kind="job", name=name, slug=name.lower().replace(" ", "-"))


def make_trace(job: Model, data: bytes = GZIPPED, **fields: Any) -> ModelVersion:
    return factories.make_version(job, data, **{"filename": NAME, "format": "trace", **fields})


def read(name: str = NAME, *, rank: int = 0, waits_for_data: bool = False) -> RankTrace:
    """Four steps of some 10 ms; `waits_for_data`: in each the GPU is idle for 2 ms more, while data are loaded."""
    plant = PLANTS["data_loading"]
    training = Training(rank=rank)
    return (training.run(lambda one: plant(one, 2000)) if waits_for_data else training.run()).read(name)


def slow(**fields: Any) -> Diagnosis:
    return diagnosed([NAME], [read(waits_for_data=True)], **fields)


def two_ranks() -> Diagnosis:
    """The second one waits for data."""
    return diagnosed(["ranks.zip"], [read("rank0.json"), read("rank1.json", rank=1, waits_for_data=True)])


def document(diagnosis: Diagnosis | None, status: RunStatus = RunStatus.SUCCEEDED, **fields: Any) -> dict[str, Any]:
    summary = diagnosis.summary if diagnosis is not None else ""
    made = Result(purpose=Purpose.DIAGNOSE, status=status, summary=summary, diagnosis=diagnosis, **fields)
    return made.model_dump(mode="json", by_alias=True)


def diagnosis_run(trace: ModelVersion, diagnosis: Diagnosis, **fields: Any) -> Run:
    """That ended with it."""
    return finished_run(document(diagnosis), trace, summary=diagnosis.summary, **fields)
