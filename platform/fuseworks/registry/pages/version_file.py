"""The bytes of a version, as a download."""

from __future__ import annotations

import uuid

from django.http import FileResponse, HttpRequest
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import page
from fuseworks.registry.downloads import version_download


@page("versions/<uuid:version_id>/file/", title=_("File"), name="version_file")
@require_safe
def version_file(request: HttpRequest, version_id: uuid.UUID) -> FileResponse:
    return version_download(actor=actor_of(request), version_id=version_id)
