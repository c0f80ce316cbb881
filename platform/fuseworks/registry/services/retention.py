"""What time takes away: uploads that nobody finished, files that nobody used, files that no row names.

The dispatcher calls `clean` once a day; `manage.py clean --dry-run` says what it would do.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from fuseworks.accounts.models import AuditEntry
from fuseworks.core.storage import delete_stored, stored_keys
from fuseworks.registry import incoming
from fuseworks.registry.models import ModelVersion, Upload
from fuseworks.registry.services.uploads import VERSIONS
from fuseworks.registry.services.versions import drop_file, packages_of
from fuseworks.runs.models import TERMINAL, Artifact, Run
from fuseworks.runs.services import ARTIFACTS_PREFIX, files_drop

# A file that no row names may be one whose transaction is still open.
STRAY_AFTER = timedelta(days=1)
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cleaned:
    """How many of each were removed, or would be; `bytes` are those of the versions' files."""

    uploads: int
    versions: int
    bytes: int
    stray_files: int


def clean(now: datetime, *, dry_run: bool = False) -> Cleaned:
    """Expired uploads; with RETENTION_DAYS, the files of versions that no run used for so long, and the packages that
    their runs made; stray files."""
    uploads = _expired_uploads(now, dry_run)
    dropped = [version for version in unused_versions(now) if dry_run or _drop(version, now)]
    strays = _stray_files(now, dry_run)
    cleaned = Cleaned(uploads, len(dropped), sum(version.size_bytes for version in dropped), strays)
    log.info("clean%s: %s", " (dry run)" if dry_run else "", cleaned)
    return cleaned


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


def _expired_uploads(now: datetime, dry_run: bool) -> int:
    """Finished ones leave only their row behind, and that goes too."""
    expired = Upload.objects.filter(expires_at__lt=now)
    count = expired.count()
    if not dry_run:
        for upload in expired:
            Upload.objects.filter(pk=upload.pk).delete()
            incoming.remove(upload)
    return count


def _stray_files(now: datetime, dry_run: bool) -> int:
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
        for key in keys:
            delete_stored(key)
        for path in paths:
            path.unlink(missing_ok=True)
    return len(keys) + len(paths)


def _is_stray(path: Path, before: datetime) -> bool:
    written_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return written_at < before and not Upload.objects.filter(pk=uuid.UUID(hex=path.stem), version=None).exists()
