"""Workloads of a version: each save is a new revision; nothing is overwritten."""

from __future__ import annotations

import json
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils.translation import gettext_lazy as _
from pydantic import ValidationError

from fuseworks.accounts.models import User
from fuseworks.accounts.permissions import UPLOAD, Actor, audit, require
from fuseworks.core.errors import PlatformError
from fuseworks.registry import errors as _errors  # noqa: F401  its ids must be in the catalogue
from fuseworks.registry.models import ModelVersion, Workload, WorkloadSource
from fuseworks.registry.selectors import current_workload
from optimizer.spec import Workload as WorkloadSpec

SHOWN_ERRORS = 3


def workload_save(*, actor: Actor, version: ModelVersion, document: Any, based_on: int | None = None) -> Workload:
    """The new current revision; the current one itself when nothing differs. `based_on`: the number the writer saw.

    Raises PlatformError: `registry:user:workload` (its `extra["fields"]` has the messages by path),
    `registry:usage:workload-changed`, `registry:usage:deleted`.
    """
    require(actor, version.model.team, UPLOAD)
    if version.deleted_at is not None:
        raise PlatformError("registry:usage:deleted", version=str(version))
    spec = workload_spec(document)
    _check_ids(version, spec)
    with transaction.atomic():
        ModelVersion.objects.select_for_update().get(pk=version.pk)
        current = current_workload(version=version)
        number = current.number if current is not None else 0
        if based_on is not None and based_on != number:
            raise PlatformError("registry:usage:workload-changed", number=number)
        if current is not None and current.document == workload_document(spec):
            return current
        saved = add_revision(version=version, spec=spec, source=WorkloadSource.EDITED, by=actor.user)
        audit(actor, "workload.save", team=version.model.team, target=saved, number=saved.number)
    return saved


def workload_restore(*, actor: Actor, version: ModelVersion, number: int) -> Workload:
    """An older revision again, as a new one. Raises PlatformError (`core:usage:not-found`)."""
    older = version.workloads.filter(number=number).first()
    if older is None:
        raise PlatformError("core:usage:not-found", what="revision")
    return workload_save(actor=actor, version=version, document=older.document)


def workload_spec(document: Any) -> WorkloadSpec:
    """Validates. Raises PlatformError (`registry:user:workload`)."""
    try:
        spec = WorkloadSpec.model_validate(document)
        _check_storable(spec)
        return spec
    except ValidationError as error:
        found: dict[str, list[str]] = {}
        for entry in error.errors(include_url=False, include_context=False, include_input=False):
            path = ".".join(map(str, entry["loc"])) or "workload"
            found.setdefault(path, []).append(entry["msg"].removeprefix("Value error, "))
        text = "; ".join(f"{path}: {'; '.join(messages)}" for path, messages in list(found.items())[:SHOWN_ERRORS])
        raise PlatformError("registry:user:workload", text=text, extra={"fields": found}) from error


def _check_ids(version: ModelVersion, spec: WorkloadSpec) -> None:
    """Ids stay below the rows of the tables that the inspection saw them index."""
    known = (version.inspection or {}).get("id_rows", {})
    found = {
        f"inputs.{index}.values.below": [text]
        for index, one in enumerate(spec.inputs)
        if one.name in known and (text := one.beyond(known[one.name])) is not None
    }
    if found:
        text = "; ".join(messages[0] for messages in list(found.values())[:SHOWN_ERRORS])
        raise PlatformError("registry:user:workload", text=text, extra={"fields": found})


def _check_storable(spec: WorkloadSpec) -> None:
    """PostgreSQL's JSON has no infinity, no zero character and no half of a surrogate pair; Python's has."""
    try:
        text = json.dumps(workload_document(spec), allow_nan=False, ensure_ascii=False)
        text.encode()
    except ValueError as error:
        raise PlatformError("registry:user:workload", text=_("numbers are finite and texts are Unicode")) from error
    if "\\u0000" in text:
        raise PlatformError("registry:user:workload", text=_("a text holds a zero character"))


def workload_document(spec: WorkloadSpec) -> dict[str, Any]:
    """As it is stored and shown: `from`, not `from_`; what is not set is left out."""
    document: dict[str, Any] = spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    return document


def add_revision(*, version: ModelVersion, spec: WorkloadSpec, source: WorkloadSource, by: User | None) -> Workload:
    """In the caller's transaction, which holds the version's row."""
    newest = version.workloads.aggregate(newest=Max("number"))["newest"] or 0
    return Workload.objects.create(
        version=version, number=newest + 1, document=workload_document(spec), source=source, created_by=by
    )
