"""Files that a run leaves, as its worker sends them: streamed into the storage, hashed on the way, under limits."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from django.db import transaction

from fuseworks.core.errors import PlatformError
from fuseworks.core.storage import Readable, delete_stored, store
from fuseworks.runs.models import Artifact, Attempt
from fuseworks.runs.services import ending

ARTIFACTS_PREFIX = "artifacts"  # of their keys in the storage
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Kind:
    content_type: str
    limit_bytes: int


ARTIFACTS: dict[str, Kind] = {
    "report.html": Kind("text/html; charset=utf-8", 64 << 20),
    "package.zip": Kind("application/zip", 16 << 30),
    "manifest.json": Kind("application/json", 4 << 20),
    "recipe.yaml": Kind("application/yaml", 1 << 20),
    "result.json": Kind("application/json", 64 << 20),
    "samples.json": Kind("application/json", 512 << 20),
    "log.txt": Kind("text/plain; charset=utf-8", 64 << 20),
}


def artifact_store(*, attempt: Attempt, name: str, stream: Readable, expected_sha256: str) -> Artifact:
    """Keeps the file under its name; the same name a second time replaces it (a post that was tried again).

    Raises PlatformError: `runs:usage:artifact-name`, `too-large`, `digest`, and `stale` before or after the bytes.
    """
    kind = ARTIFACTS.get(name)
    if kind is None:
        raise PlatformError("runs:usage:artifact-name", name=repr(name[:100]), allowed=", ".join(ARTIFACTS))
    with transaction.atomic():
        ending.working(attempt)
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
