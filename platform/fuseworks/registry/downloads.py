"""A version's file as an answer, for the page and the endpoint alike."""

from __future__ import annotations

import uuid

from django.http import FileResponse

from fuseworks.accounts.permissions import Actor
from fuseworks.core.errors import PlatformError
from fuseworks.core.storage import serve
from fuseworks.registry import errors as _errors  # noqa: F401  its ids must be in the catalogue
from fuseworks.registry.selectors import version_get


def version_download(*, actor: Actor, version_id: uuid.UUID) -> FileResponse:
    """Never shown inside the site: it is a stranger's. Raises PlatformError (`registry:usage:deleted`)."""
    version = version_get(actor=actor, version_id=version_id)
    if not version.storage_key:
        raise PlatformError("registry:usage:deleted", version=str(version))
    return serve(
        version.storage_key,
        filename=version.filename,
        content_type="application/octet-stream",
        size=version.size_bytes,
    )
