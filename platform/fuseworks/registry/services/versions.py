"""Deletion of a version: its file goes, and the packages of its runs, which hold its weights. Its row stays, so that
runs and evidence that name it can still be read."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from fuseworks.accounts.models import User
from fuseworks.accounts.permissions import DELETE, Actor, audit, require
from fuseworks.core.errors import PlatformError
from fuseworks.core.storage import delete_stored
from fuseworks.registry import errors as _errors  # noqa: F401  its ids must be in the catalogue
from fuseworks.registry.models import ModelVersion
from fuseworks.runs.models import TERMINAL, Artifact, Run
from fuseworks.runs.services import files_drop

PACKAGE = "package.zip"


def version_delete(*, actor: Actor, version: ModelVersion, with_packages: bool = True) -> ModelVersion:
    """Deleting twice is no error, and deletes the packages if they were kept the first time.

    Raises PlatformError (`registry:usage:in-use`) while a run still needs the file.
    """
    require(actor, version.model.team, DELETE)
    with transaction.atomic():
        locked = ModelVersion.objects.select_for_update().get(pk=version.pk)
        if locked.deleted_at is None:
            working = runs_that_need(locked).count()
            if working:
                raise PlatformError("registry:usage:in-use", count=working, version=str(locked))
            drop_file(locked, at=timezone.now(), by=actor.user)
            audit(actor, "version.delete", team=version.model.team, target=locked, number=locked.number)
        if with_packages and files_drop(packages_of(locked)):
            audit(actor, "version.delete_packages", team=version.model.team, target=locked, number=locked.number)
    version.refresh_from_db()
    return version


def runs_that_need(version: ModelVersion) -> QuerySet[Run]:
    """Those that are not over: its file cannot go before they are."""
    found: QuerySet[Run] = Run.objects.filter(Q(version=version) | Q(against=version)).exclude(status__in=TERMINAL)
    return found


def packages_of(version: ModelVersion) -> QuerySet[Artifact]:
    """What its runs made of it to be deployed."""
    found: QuerySet[Artifact] = Artifact.objects.filter(run__version=version, name=PACKAGE)
    return found


def drop_file(version: ModelVersion, *, at: datetime, by: User | None) -> None:
    """In the caller's transaction; the bytes go once it is committed. `by` None: retention."""
    key = version.storage_key
    version.storage_key, version.deleted_at, version.deleted_by = "", at, by
    version.save(update_fields=["storage_key", "deleted_at", "deleted_by", "updated_at"])
    if key:
        transaction.on_commit(lambda: delete_stored(key))
