"""Rows for the platform's tests: each function makes one valid thing and whatever it cannot do without.

Only for tests: services make these in the product, with permissions and audit, and have tests of their own.
"""

from __future__ import annotations

import hashlib
import io
import itertools
from datetime import timedelta
from typing import Any

from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from fuseworks.accounts.authentication import token_sha256
from fuseworks.accounts.models import ApiToken, BusinessUnit, Membership, Scope, Team, User
from fuseworks.registry.models import Model, ModelVersion, Workload
from fuseworks.results.models import RunResult
from fuseworks.runs.models import TERMINAL, Run, Status
from optimizer.result import Conditions, Interval, OutputNumerics, Result, RunStatus, Verdict
from optimizer.spec import InputSpec, Policy, Purpose
from optimizer.spec import Workload as WorkloadDocument

PASSWORD = "a long sentence that nobody guesses 7"
ALL_SCOPES = tuple(scope.value for scope in Scope)
MODEL_SOURCE = b"class Model: ...\n"

_counter = itertools.count(1)


def make_user(email: str | None = None, **fields: Any) -> User:
    """His password is PASSWORD."""
    return User.objects.create_user(email or f"user{next(_counter)}@example.com", PASSWORD, **fields)


def make_unit(name: str | None = None) -> BusinessUnit:
    name = name or f"Unit {next(_counter)}"
    return BusinessUnit.objects.create(name=name, slug=name.lower().replace(" ", "-"))


def make_team(slug: str | None = None, unit: BusinessUnit | None = None, **fields: Any) -> Team:
    slug = slug or f"team-{next(_counter)}"
    fields.setdefault("name", slug.replace("-", " ").capitalize())
    return Team.objects.create(slug=slug, business_unit=unit or make_unit(), **fields)


def make_member(team: Team, role: str = "member", user: User | None = None) -> User:
    user = user or make_user()
    Membership.objects.create(user=user, team=team, role=role)
    return user


def make_token(user: User, team: Team | None = None, scopes: tuple[str, ...] = ALL_SCOPES, **fields: Any) -> str:
    """The token itself; its row is `ApiToken.objects.get(token_sha256=token_sha256(token))`."""
    number = next(_counter)
    token = f"fw_{number:040d}"
    fields = {"name": f"token {number}", "prefix": token[:12], **fields}
    ApiToken.objects.create(user=user, team=team, scopes=list(scopes), token_sha256=token_sha256(token), **fields)
    return token


def make_model(team: Team, name: str | None = None) -> Model:
    name = name or f"Model {next(_counter)}"
    return Model.objects.create(team=team, name=name, slug=name.lower().replace(" ", "-"))


def make_version(model: Model, data: bytes | None = None, **fields: Any) -> ModelVersion:
    """With `data` its bytes are in the site's storage; without, only the row is there."""
    content = MODEL_SOURCE if data is None else data
    key = f"models/{next(_counter)}"
    if data is not None:
        from fuseworks.core.storage import store

        key = store(io.BytesIO(data), prefix="models").key
    fields = {
        "number": model.versions.count() + 1,
        "filename": "model.py",
        "format": "py",
        "sha256": hashlib.sha256(content).hexdigest(),
        "size_bytes": len(content),
        "storage_key": key,
        **fields,
    }
    return ModelVersion.objects.create(model=model, **fields)


def workload_document() -> dict[str, Any]:
    document = WorkloadDocument(inputs=[InputSpec(name="x", dtype="float32", shape=[4, 8])])
    return document.model_dump(mode="json", by_alias=True)


def make_workload(version: ModelVersion, document: dict[str, Any] | None = None, **fields: Any) -> Workload:
    fields = {"number": version.workloads.count() + 1, "source": "inspected", **fields}
    return Workload.objects.create(version=version, document=document or workload_document(), **fields)


def make_run(version: ModelVersion, **fields: Any) -> Run:
    """Queued unless `status` says otherwise; one that was started or ended carries the times that go with it."""
    now = timezone.now()
    status = fields.get("status", Status.QUEUED)
    started = {"attempt": 1, "started_at": now - timedelta(seconds=60)} if status != Status.QUEUED else {}
    ended = {"ended_at": now, "worked_s": 60.0} if status in TERMINAL else {}
    fields = {
        "team": version.model.team,
        "purpose": "optimize",
        "policy": Policy().model_dump(mode="json"),
        "time_limit_s": 1860.0,
        **started,
        **ended,
        **fields,
    }
    return Run.objects.create(version=version, **fields)


def result_document(**fields: Any) -> dict[str, Any]:
    """A run that found a candidate twice as fast: 8 ms before, 4 ms after, interval [1.9, 2.1]."""
    fields = {
        "purpose": Purpose.OPTIMIZE,
        "status": RunStatus.SUCCEEDED,
        "summary": "2.00 times as fast",
        "baseline_ms": 8.0,
        "best_ms": 4.0,
        "speedup": 2.0,
        "speedup_ci": Interval(low=1.9, high=2.1),
        "speedup_as_deployed": 2.5,
        "speedup_as_deployed_ci": Interval(low=2.3, high=2.7),
        "verdict": Verdict.FASTER,
        "winner": "inductor",
        "numerics": [
            OutputNumerics(
                output="y",
                dtype="float32",
                error=2e-7,
                baseline_error=1e-7,
                allowed=1.03e-5,
                max_abs_error=3e-7,
                samples=64,
                passed=True,
            )
        ],
        "conditions": Conditions(fixed={"device": "a CPU", "cores": 2}, fingerprint="ab" * 32),
        "elapsed_s": 60.0,
        **fields,
    }
    return Result(**fields).model_dump(mode="json", by_alias=True)


def make_result(run: Run, document: dict[str, Any] | None = None) -> RunResult:
    document = document or result_document(purpose=run.purpose)
    interval = document["speedup_ci"] or {}
    return RunResult.objects.create(
        run=run,
        attempt=run.attempt,
        document=document,
        verdict=document["verdict"] or "",
        speedup=document["speedup"],
        speedup_low=interval.get("low"),
        speedup_high=interval.get("high"),
        speedup_as_deployed=document["speedup_as_deployed"],
        baseline_ms=document["baseline_ms"],
        best_ms=document["best_ms"],
        winner=document["winner"] or "",
        fingerprint=(document["conditions"] or {}).get("fingerprint", ""),
    )


def client_for(user: User, **options: Any) -> Client:
    """A browser in which `user` is signed in."""
    client = Client(**options)
    client.force_login(user)
    return client


def api_for(user_or_token: User | str, **options: Any) -> APIClient:
    """Speaks to the API with a session of the user, or with the token."""
    client = APIClient(**options)
    if isinstance(user_or_token, User):
        client.force_login(user_or_token)
    else:
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {user_or_token}")
    return client
