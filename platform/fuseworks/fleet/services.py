"""What workers tell of themselves. Nothing here changes a run: a silent worker's runs end by their leases."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from fuseworks.core.errors import PlatformError
from fuseworks.fleet import errors as _errors  # noqa: F401  its ids must be in the catalogue
from fuseworks.fleet.models import Worker
from fuseworks.fleet.selectors import workers_alive
from fuseworks.runs import bell, scrub


def worker_hello(
    *,
    name: str,
    host: str,
    target: str,
    manifest: dict[str, Any],
    noise_floor: float | None = None,
    noise_floor_conditions: dict[str, Any] | None = None,
    now: datetime | None = None,
) -> Worker:
    """A worker that starts, or one at work that has something new to tell. Without a noise floor the last one stays."""
    now = now or timezone.now()
    told: dict[str, Any] = {
        "host": host,
        "target": target,
        "manifest": scrub.storable(manifest),
        "last_seen_at": now,
        "stopped_at": None,
    }
    if noise_floor is not None:
        told["noise_floor"] = noise_floor
        told["noise_floor_conditions"] = scrub.storable(noise_floor_conditions or {})
    with transaction.atomic():
        if not workers_alive(now=now).filter(name=name).exists():
            told["started_at"] = now
        worker, _ = Worker.objects.update_or_create(name=name, defaults=told)
        bell.ring()
    return worker


def worker_alive(*, name: str, now: datetime | None = None) -> None:
    """Raises PlatformError (`fleet:usage:unknown-worker`): it must say hello (again)."""
    now = now or timezone.now()
    if not Worker.objects.filter(name=name, stopped_at=None).update(last_seen_at=now, updated_at=now):
        raise PlatformError("fleet:usage:unknown-worker", name=name)


def worker_goodbye(*, name: str, now: datetime | None = None) -> None:
    """Raises PlatformError (`fleet:usage:unknown-worker`)."""
    now = now or timezone.now()
    if not Worker.objects.filter(name=name).update(last_seen_at=now, stopped_at=now, updated_at=now):
        raise PlatformError("fleet:usage:unknown-worker", name=name)
