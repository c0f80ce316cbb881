"""What time takes away: uploads that nobody finished, files that nobody used, what old runs left, files that no row
names, old keys of requests, sessions and sign-ins.

The dispatcher calls `clean` once a day; `manage.py clean --dry-run` says what it would do. A file that resists is
logged and left, and a step that fails leaves the others their work.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from fuseworks.accounts.expiry import sessions_over, sign_ins_old
from fuseworks.accounts.idempotency import expired_keys
from fuseworks.accounts.models import AuditEntry
from fuseworks.core.storage import delete_stored, stored_keys
from fuseworks.registry import incoming
from fuseworks.registry.models import ModelVersion, Upload
from fuseworks.registry.services.uploads import VERSIONS
from fuseworks.registry.services.versions import drop_file, packages_of
from fuseworks.runs.models import TERMINAL, Artifact, Run
from fuseworks.runs.services import ARTIFACTS_PREFIX, files_drop
from fuseworks.runs.services.expiring import run_expire, runs_expired

# A file that no row names may be one whose transaction is still open.
STRAY_AFTER = timedelta(days=1)
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cleaned:
    """How many of each were removed, or would be; `bytes` are those of the versions' files, `runs` those that lost what
    they had left, `failed` the steps that came to no end (the log says why)."""

    uploads: int = 0
    versions: int = 0
    bytes: int = 0
    runs: int = 0
    stray_files: int = 0
    keys: int = 0
    sessions: int = 0
    sign_ins: int = 0
    failed: int = 0


Counts = dict[str, int]


def clean(now: datetime, *, dry_run: bool = False) -> Cleaned:
    """With RETENTION_DAYS, the files of versions that no run used for so long go, and the packages that their runs
    made; with RUN_FILES_DAYS, what runs left beside package and recipe. Raises only what the database itself does."""
    counts: Counts = {"failed": 0}
    for step in (_uploads, _versions, _runs, _stray_files, _keys, _sign_ins):
        counts.update(_carefully(step, now, dry_run) or {"failed": counts["failed"] + 1})
    cleaned = Cleaned(**counts)
    log.info("clean%s: %s", " (dry run)" if dry_run else "", cleaned)
    return cleaned


def _carefully(step: Callable[[datetime, bool], Counts], now: datetime, dry_run: bool) -> Counts | None:
    try:
        return step(now, dry_run)
    except (OperationalError, InterfaceError):  # the database is away: no step would fare better
        raise
    except Exception:
        log.exception("%s could not be cleaned", step.__name__.strip("_").replace("_", " "))
        return None


def _gone(remove: Callable[[Any], object], what: Any) -> bool:
    """One file that resists must not keep all others."""
    try:
        remove(what)
    except OSError as error:
        log.error("%r could not be removed: %s", what, error)
        return False
    return True


def _versions(now: datetime, dry_run: bool) -> Counts:
    dropped = [version for version in unused_versions(now) if dry_run or _drop(version, now)]
    return {"versions": len(dropped), "bytes": sum(version.size_bytes for version in dropped)}


def _runs(now: datetime, dry_run: bool) -> Counts:
    expired = list(runs_expired(now))
    if not dry_run:
        expired = [run for run in expired if _gone(run_expire, run)]
    return {"runs": len(expired)}


def unused_versions(now: datetime) -> QuerySet[ModelVersion]:
    """Those older than RETENTION_DAYS that no run used within them; none when it is 0."""
    if settings.RETENTION_DAYS == 0:
        return ModelVersion.objects.none()
    since = now - timedelta(days=settings.RETENTION_DAYS)
    used = Run.objects.filter(Q(version=OuterRef("pk")) | Q(against=OuterRef("pk"))).filter(
        ~Q(status__in=TERMINAL) | Q(created_at__gte=since) | Q(ended_at__gte=since)
    )
    return ModelVersion.objects.filter(~Exists(used), created_at__lt=since, deleted_at=None)


def _drop(version: ModelVersion, now: datetime) -> bool:
    done = False

    def drop(version: ModelVersion) -> None:
        nonlocal done
        done = _drop_unused(version, now)

    # the bytes go when the row is committed: those that resist are stray files from then on
    return _gone(drop, version) and done


def _drop_unused(version: ModelVersion, now: datetime) -> bool:
    """Looked at again under its lock: a run may have begun since."""
    with transaction.atomic():
        locked = ModelVersion.objects.select_for_update().filter(pk=version.pk, deleted_at=None).first()
        if locked is None or not unused_versions(now).filter(pk=version.pk).exists():
            return False
        drop_file(locked, at=now, by=None)
        files_drop(packages_of(locked))
        AuditEntry.objects.create(
            actor=None,
            team=locked.model.team,
            action="version.expire",
            object_type=ModelVersion._meta.label_lower,
            object_id=locked.pk,
            detail={"number": locked.number, "days": settings.RETENTION_DAYS},
        )
    return True


def _uploads(now: datetime, dry_run: bool) -> Counts:
    """Finished ones leave only their row behind, and that goes too."""
    expired = list(Upload.objects.filter(expires_at__lt=now))
    if not dry_run:
        for upload in expired:
            Upload.objects.filter(pk=upload.pk).delete()
            _gone(incoming.remove, upload)
    return {"uploads": len(expired)}


def _keys(now: datetime, dry_run: bool) -> Counts:
    return {"keys": _rows(expired_keys(now), dry_run)}


def _sign_ins(now: datetime, dry_run: bool) -> Counts:
    return {
        "sessions": _rows(sessions_over(now), dry_run),
        "sign_ins": sum(_rows(old, dry_run) for old in sign_ins_old(now)),
    }


def _rows(found: QuerySet[Any], dry_run: bool) -> int:
    return found.count() if dry_run else found.delete()[0]


def _stray_files(now: datetime, dry_run: bool) -> Counts:
    before = now - STRAY_AFTER
    known = set(ModelVersion.objects.exclude(storage_key="").values_list("storage_key", flat=True))
    known |= set(Artifact.objects.values_list("storage_key", flat=True))
    keys = [
        key
        for prefix in (VERSIONS, ARTIFACTS_PREFIX)
        for key, written_at in stored_keys(prefix)
        if written_at < before and key not in known
    ]
    paths = [path for path in incoming.folder().glob(f"*{incoming.SUFFIX}") if _is_stray(path, before)]
    if not dry_run:
        keys = [key for key in keys if _gone(delete_stored, key)]
        paths = [path for path in paths if _gone(_unlink, path)]
    return {"stray_files": len(keys) + len(paths)}


def _unlink(path: Path) -> None:
    path.unlink(missing_ok=True)


def _is_stray(path: Path, before: datetime) -> bool:
    try:
        written_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        upload = uuid.UUID(hex=path.stem)
    except FileNotFoundError:  # its upload was finished or cancelled meanwhile
        return False
    except ValueError:
        log.warning("%s is no upload's file, and is left", path)
        return False
    return written_at < before and not Upload.objects.filter(pk=upload, version=None).exists()
