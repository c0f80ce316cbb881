"""Removes files that runs left: the rows in the caller's transaction, the bytes once it is committed."""

from __future__ import annotations

from functools import partial

from django.db import transaction
from django.db.models import QuerySet

from fuseworks.core.storage import delete_stored
from fuseworks.runs.models import Artifact


def files_drop(files: QuerySet[Artifact]) -> int:
    """How many bytes that frees."""
    found = list(files)
    Artifact.objects.filter(pk__in=[file.pk for file in found]).delete()
    for file in found:
        transaction.on_commit(partial(delete_stored, file.storage_key))
    return sum(file.size_bytes for file in found)
