"""Files that a run leaves, as its worker sends them: streamed into the storage, hashed on the way, under limits.

All of them count in the team's use of its quota. Only a package, which may have gigabytes, is refused because of it:
the answer of a run that has worked for an hour is kept in any case.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.db import transaction

from fuseworks.core.errors import PlatformError
from fuseworks.core.storage import Readable, delete_stored, free_bytes, refused_when_full, store
from fuseworks.runs.models import Artifact, Attempt, Run
from fuseworks.runs.services import ending

ARTIFACTS_PREFIX = "artifacts"  # of their keys in the storage
DISK_FULL = "runs:ours:disk-full"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Kind:
    content_type: str
    largest_bytes: int
    within_quota: bool = False

    @property
    def limit_bytes(self) -> int:
        return min(self.largest_bytes, settings.MAX_ARTIFACT_BYTES)


ARTIFACTS: dict[str, Kind] = {
    "report.html": Kind("text/html; charset=utf-8", 64 << 20),
    "package.zip": Kind("application/zip", sys.maxsize, within_quota=True),
    "manifest.json": Kind("application/json", 4 << 20),
    "recipe.yaml": Kind("application/yaml", 1 << 20),
    "result.json": Kind("application/json", 64 << 20),
    "samples.json": Kind("application/json", 512 << 20),
    "log.txt": Kind("text/plain; charset=utf-8", 64 << 20),
}


def artifact_store(
    *, attempt: Attempt, name: str, stream: Readable, expected_sha256: str, length_bytes: int | None = None
) -> Artifact:
    """Keeps the file under its name; the same name a second time replaces it (a post that was tried again).

    `length_bytes`, where the sender told it, is refused before the bytes are read. Raises PlatformError:
    `runs:usage:artifact-name`, `too-large`, `quota`, `digest`, `runs:ours:disk-full`, and `stale` before or after the
    bytes.
    """
    kind = ARTIFACTS.get(name)
    if kind is None:
        raise PlatformError("runs:usage:artifact-name", name=repr(name[:100]), allowed=", ".join(ARTIFACTS))
    with transaction.atomic():
        run = ending.working(attempt)
    _check_length(run, name, kind, length_bytes or 0)
    with refused_when_full(DISK_FULL):
        stored = store(_Bounded(stream, name, kind.limit_bytes), prefix=ARTIFACTS_PREFIX)
    replaced = None
    try:
        if stored.sha256 != expected_sha256:
            raise PlatformError("runs:usage:digest", name=name, got=stored.sha256, expected=expected_sha256)
        with transaction.atomic():
            run = ending.working(attempt)
            old = Artifact.objects.filter(run=run, attempt=attempt.number, name=name).first()
            replaced = old.storage_key if old is not None else None
            artifact, _ = Artifact.objects.update_or_create(
                run=run,
                attempt=attempt.number,
                name=name,
                defaults={
                    "size_bytes": stored.size_bytes,
                    "sha256": stored.sha256,
                    "storage_key": stored.key,
                },
            )
    except BaseException:
        delete_stored(stored.key)
        raise
    if replaced is not None:
        delete_stored(replaced)
    return artifact


def _check_length(run: Run, name: str, kind: Kind, length_bytes: int) -> None:
    if length_bytes > kind.limit_bytes:
        raise PlatformError("runs:usage:too-large", what=name, limit_bytes=kind.limit_bytes)
    if free_bytes(Path(settings.STORAGE)) < length_bytes:
        raise PlatformError(DISK_FULL)
    if kind.within_quota:
        from fuseworks.registry.usage import usage  # it counts the files of runs

        found = usage(team=run.team)
        replaced = Artifact.objects.filter(run=run, attempt=run.attempt, name=name).values_list("size_bytes", flat=True)
        # of two packages that come together both may pass: the next one finds them counted
        if found.stored_bytes - sum(replaced) + length_bytes > found.quota_bytes:
            used, quota = found.stored_bytes >> 20, found.quota_bytes >> 20
            raise PlatformError("runs:usage:quota", name=name, team=run.team.name, used_mib=used, quota_mib=quota)


class _Bounded:
    """Breaks off when more comes than is allowed."""

    def __init__(self, stream: Readable, name: str, limit_bytes: int) -> None:
        self._stream, self._name, self._limit_bytes, self._left = stream, name, limit_bytes, limit_bytes

    def read(self, size: int, /) -> bytes:
        block = self._stream.read(size)
        self._left -= len(block)
        if self._left < 0:
            raise PlatformError("runs:usage:too-large", what=self._name, limit_bytes=self._limit_bytes)
        return block
