"""A worker claims a run. The answer says what to do and where the files are; everybody but the first gets 409. The
first, who sends its `key` again because the answer was lost, gets the same answer again."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from fuseworks.core.discovery import endpoint
from fuseworks.registry.models import ModelVersion
from fuseworks.runs.models import Attempt, Run
from fuseworks.runs.services import attempt_claim
from fuseworks.runs.services.attempts import api_address, time_left_s
from fuseworks.runs.worker_api import AttemptBody, Text, WorkerView


class ClaimBody(AttemptBody):
    worker = Text(max_length=200)
    works = serializers.BooleanField(default=True)
    key = serializers.CharField(default="", allow_blank=True, max_length=64)


@extend_schema(exclude=True)
@endpoint("worker/runs/<uuid:run_id>/claim/", name="worker-claim")
class WorkerClaim(WorkerView):
    def post(self, request: Any, run_id: uuid.UUID) -> Response:
        given = self.body(request, ClaimBody)
        attempt = self.attempt_of(request, run_id, given["attempt"])
        run = attempt_claim(attempt=attempt, worker=given["worker"], works=given["works"], key=given["key"])
        return Response(_task(run, attempt))


def _task(run: Run, attempt: Attempt) -> dict[str, Any]:
    files = {"model": _file(run, attempt, "model", run.version)}
    if run.against is not None:
        files["against"] = _file(run, attempt, "against", run.against)
    return {
        "purpose": run.purpose,
        "target": run.target,
        "policy": run.policy,
        "workload": run.workload.document if run.workload is not None else None,
        "files": files,
        "recipe": run.recipe_document,
        "lease_s": settings.LEASE_S,
        "time_left_s": time_left_s(run, attempt, timezone.now()),
    }


def _file(run: Run, attempt: Attempt, role: str, version: ModelVersion) -> dict[str, Any]:
    # the name shows in the log and the report, and those are read by the run's team
    is_own = version.model.team_id == run.team_id
    return {
        "address": f"{api_address()}worker/runs/{run.pk}/files/{role}/?attempt={attempt.number}",
        "filename": version.filename if is_own else f"{role}.{version.format}",
        "sha256": version.sha256,
        "size_bytes": version.size_bytes,
    }
