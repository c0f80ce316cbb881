"""Uploads: begun, appended to, finished or cancelled. The bytes lie in `registry.incoming` until they are a version.

Whatever is wrong with the file itself ends the upload: more bytes cannot mend it.
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime, timedelta
from io import BufferedRandom
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Max
from django.urls import reverse
from django.utils import timezone

from fuseworks.accounts.models import Team
from fuseworks.accounts.permissions import UPLOAD, Actor, audit, require
from fuseworks.core.connections import let_go
from fuseworks.core.errors import PlatformError
from fuseworks.core.storage import delete_stored, refused_when_full, store_file
from fuseworks.registry import formats, incoming, trace_files
from fuseworks.registry.models import Format, Kind, Model, ModelVersion, Upload
from fuseworks.registry.services.models import checked_name
from fuseworks.registry.usage import usage
from fuseworks.runs.models import Purpose
from fuseworks.runs.services import run_create
from optimizer.uploads.formats import MIB

VERSIONS = "versions"
SHA256 = re.compile(r"[0-9a-f]{64}")


def upload_begin(
    *,
    actor: Actor,
    team: Team,
    filename: str,
    length_bytes: int,
    model: Model | None = None,
    model_name: str = "",
    kind: str = Kind.MODEL,
    expected_sha256: str = "",
) -> Upload:
    """Of a new version of `model`, or of the team's model (or job, by `kind`) called `model_name`, which is made when
    there is none.

    Raises PlatformError for what can be refused before a byte is sent: name, format, size, quota, room on the disk.
    """
    require(actor, team, UPLOAD)
    kind = Kind(model.kind if model is not None else kind)
    filename = formats.clean_filename(filename)
    _files(kind).check_announced(filename, length_bytes)
    expected_sha256 = expected_sha256.strip().lower()
    if expected_sha256 and not SHA256.fullmatch(expected_sha256):
        raise PlatformError("registry:usage:sha256", place="sha256", text=expected_sha256[:80])
    if model is None:
        model_name, slug = checked_name(model_name)
        model = Model.objects.filter(team=team, kind=kind, slug=slug).first()
    elif model.team_id != team.pk:
        raise PlatformError("core:usage:not-found", what="model")
    with transaction.atomic():
        # Two uploads that begin together must not both take the last of the quota.
        team = Team.objects.select_for_update().get(pk=team.pk)
        _check_quota(team, length_bytes)
        upload = Upload.objects.create(
            team=team,
            kind=kind,
            model=model,
            model_name=model.name if model is not None else model_name,
            filename=filename,
            length_bytes=length_bytes,
            expected_sha256=expected_sha256,
            created_by=actor.user,
            expires_at=_expiry(),
        )
        incoming.create(upload)
    return upload


def upload_append(
    *,
    actor: Actor,
    upload: Upload,
    offset: int,
    stream: incoming.Readable,
    length_bytes: int,
    sha256: bytes | None = None,
) -> int:
    """Appends the stream's `length_bytes` at `offset` and answers the new offset; the last byte finishes the upload.

    `sha256` of these bytes, if given, must hold or they are dropped. A sender that goes away leaves what came.
    Raises PlatformError: `registry:usage:...` for a wrong offset, another writer, too many bytes, a cut connection;
    and what `upload_finish` raises.
    """
    require(actor, upload.team, UPLOAD)
    if upload.version is not None and offset + length_bytes == upload.length_bytes:
        return upload.length_bytes  # its sender missed the answer to the last byte
    with incoming.locked(upload) as file:
        _check_open(upload)
        at = incoming.offset_of(upload)
        if offset != at:
            extra = {"offset_bytes": at}
            raise PlatformError("registry:usage:wrong-offset", offset_bytes=at, given=offset, extra=extra)
        if at + length_bytes > upload.length_bytes:
            raise PlatformError(
                "registry:usage:past-end",
                given_bytes=length_bytes,
                offset_bytes=at,
                length_bytes=upload.length_bytes,
            )
        Upload.objects.filter(pk=upload.pk).update(expires_at=_expiry(), updated_at=timezone.now())
        chunk_hash = hashlib.sha256()
        let_go()
        received_bytes = incoming.receive(file, stream, length_bytes, chunk_hash)
        is_cut = received_bytes < length_bytes
        if sha256 is not None and (is_cut or chunk_hash.digest() != sha256):
            file.truncate(at)
        if is_cut:
            raise PlatformError("registry:usage:cut-off", received_bytes=received_bytes, announced_bytes=length_bytes)
        if sha256 is not None and chunk_hash.digest() != sha256:
            raise PlatformError("registry:usage:chunk-checksum")
        if at + received_bytes == upload.length_bytes:
            # In one piece: no second reading.
            _finish(actor, upload, file, chunk_hash.hexdigest() if at == 0 else None)
        return at + received_bytes


def upload_finish(*, actor: Actor, upload: Upload) -> ModelVersion:
    """Makes the version of a complete upload, and starts the run that looks at it: `inspect` of a model, `diagnose` of
    a trace. Finishing twice answers the same version.

    Raises PlatformError (and ends the upload): `registry:user:...` for the file, `registry:usage:same-bytes`.
    """
    require(actor, upload.team, UPLOAD)
    if upload.version is not None:
        return upload.version
    with incoming.locked(upload) as file:
        _check_open(upload)
        at = incoming.offset_of(upload)
        if at != upload.length_bytes:
            raise PlatformError("registry:usage:incomplete", offset_bytes=at, length_bytes=upload.length_bytes)
        return _finish(actor, upload, file, None)


def upload_cancel(*, actor: Actor, upload: Upload) -> None:
    """Raises PlatformError (`registry:usage:upload-over`) for one that is a version already."""
    require(actor, upload.team, UPLOAD)
    if upload.version_id is not None:
        raise PlatformError("registry:usage:upload-over", why="it is complete; delete the version instead")
    _end(upload)


def upload_whole(
    *,
    actor: Actor,
    team: Team,
    filename: str,
    stream: incoming.Readable,
    length_bytes: int,
    model: Model | None = None,
    model_name: str = "",
    kind: str = Kind.MODEL,
    expected_sha256: str = "",
) -> ModelVersion:
    """All in one: what comes in one body is a version, or nothing is kept of it."""
    upload = upload_begin(
        actor=actor,
        team=team,
        filename=filename,
        length_bytes=length_bytes,
        model=model,
        model_name=model_name,
        kind=kind,
        expected_sha256=expected_sha256,
    )
    try:
        upload_append(actor=actor, upload=upload, offset=0, stream=stream, length_bytes=length_bytes)
    except BaseException:
        _end(upload)
        raise
    assert upload.version is not None  # the last byte finished it
    return upload.version


def _files(kind: str) -> Any:
    """Which files there are of this kind: `check_announced` before their bytes come, `examine` afterwards."""
    return trace_files if kind == Kind.JOB else formats


def _check_open(upload: Upload) -> None:
    """Looked up again once the file is locked: another request may have finished or cancelled it meanwhile."""
    row = Upload.objects.filter(pk=upload.pk).first()
    if row is None or row.version_id is not None or row.expires_at < timezone.now():
        raise PlatformError("registry:usage:upload-over", why="it was completed, cancelled or has expired")


def _finish(actor: Actor, upload: Upload, file: BufferedRandom, sha256: str | None) -> ModelVersion:
    try:
        format_ = _files(upload.kind).examine(file, upload.filename)
        sha256 = sha256 or incoming.sha256_of(file)
        if upload.expected_sha256 not in ("", sha256):
            raise PlatformError("registry:user:checksum", found=sha256, expected=upload.expected_sha256)
        version = _register(actor, upload, format_, sha256)
    except PlatformError as error:
        if error.id.startswith("registry:"):
            _end(upload)
        raise
    return version


def _register(actor: Actor, upload: Upload, format_: Format, sha256: str) -> ModelVersion:
    try:
        with refused_when_full("registry:ours:disk-full"):
            key = store_file(incoming.path_of(upload), prefix=VERSIONS)
    except FileNotFoundError as error:  # its lock keeps writers out, not whoever cancels
        raise PlatformError("registry:usage:upload-over", why="it was cancelled") from error
    try:
        with transaction.atomic():
            model = _model_of(upload)
            _refuse_same_bytes(model, sha256)
            newest = model.versions.aggregate(newest=Max("number"))["newest"] or 0
            version = ModelVersion.objects.create(
                model=model,
                number=newest + 1,
                filename=upload.filename,
                format=format_,
                sha256=sha256,
                size_bytes=upload.length_bytes,
                storage_key=key,
                uploaded_by=actor.user,
            )
            if not Upload.objects.filter(pk=upload.pk).update(version=version, model=model):
                raise PlatformError("registry:usage:upload-over", why="it was cancelled")
            audit(actor, "version.upload", team=model.team, target=version, number=version.number, sha256=sha256)
            first = Purpose.DIAGNOSE if format_ == Format.TRACE else Purpose.INSPECT
            run_create(actor=actor, version=version, purpose=first)
    except BaseException:
        delete_stored(key)
        raise
    upload.version, upload.model = version, model
    incoming.remove(upload)
    return version


def _model_of(upload: Upload) -> Model:
    """Locked, so that two uploads of one model number their versions one after the other."""
    if upload.model_id is None:
        name, slug = checked_name(upload.model_name)
        mine = {"team": upload.team, "kind": upload.kind, "slug": slug}
        Model.objects.get_or_create(**mine, defaults={"name": name})
        return Model.objects.select_for_update().get(**mine)
    return Model.objects.select_for_update().get(pk=upload.model_id)


def _refuse_same_bytes(model: Model, sha256: str) -> None:
    same = model.versions.filter(sha256=sha256, deleted_at=None).order_by("number").first()
    if same is None:
        return
    address = reverse("version", args=[same.pk])
    extra = {"version": str(same.pk), "address": address}
    raise PlatformError("registry:usage:same-bytes", number=same.number, model=model.name, address=address, extra=extra)


def _check_quota(team: Team, length_bytes: int) -> None:
    found = usage(team=team)
    quota, used = found.quota_bytes, found.stored_bytes
    if used + length_bytes > quota:
        raise PlatformError(
            "registry:usage:quota",
            team=team.name,
            used_mib=used // MIB,
            quota_mib=quota // MIB,
            size_mib=-(-length_bytes // MIB),
        )


def _end(upload: Upload) -> None:
    Upload.objects.filter(pk=upload.pk, version=None).delete()
    incoming.remove(upload)


def _expiry() -> datetime:
    return timezone.now() + timedelta(hours=settings.UPLOAD_EXPIRES_HOURS)
