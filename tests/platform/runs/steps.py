"""What a dispatcher and a worker do with a run, step by step, for tests. `NOW` is an arbitrary moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from rest_framework.test import APIClient

from fuseworks.fleet.models import Worker
from fuseworks.runs.models import Attempt, Run
from fuseworks.runs.services import Opened, attempt_claim, attempt_open
from tests.platform import factories

NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def queued(**fields: Any) -> Run:
    return factories.make_run(factories.make_version(factories.make_model(factories.make_team())), **fields)


def opened(run: Run, now: datetime = NOW) -> Opened:
    """Sent to the broker, as far as the database knows."""
    found = attempt_open(run_id=run.pk, now=now)
    assert found is not None
    return found


def claimed(run: Run, now: datetime = NOW, worker: str = "host cpu") -> Attempt:
    """Sent and claimed in the same moment; the run is read anew."""
    attempt = opened(run, now).attempt
    attempt_claim(attempt=attempt, worker=worker, now=now)
    run.refresh_from_db()
    return attempt


def worker_row(name: str = "host cpu", target: str = "cpu", seen: datetime = NOW, **fields: Any) -> Worker:
    return Worker.objects.create(name=name, host="host", target=target, last_seen_at=seen, started_at=seen, **fields)


def worker_client(token: str) -> APIClient:
    """Speaks to the worker's API with the token of one attempt."""
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


def token_of(found: Opened) -> str:
    return found.message.token.get_secret_value()


def event(kind: str = "compiling", message: str = "Building inductor", **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "at_s": 1.5, "budget_s": 480.0, "message": message, **fields}
