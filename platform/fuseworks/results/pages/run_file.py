"""Files that a run left, under names that say where they come from: `din-v3-package.zip`."""

from __future__ import annotations

import mimetypes
import uuid

from django.http import FileResponse, HttpRequest
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import page
from fuseworks.core.storage import serve
from fuseworks.results import selectors
from fuseworks.results.snippets import filename


@page("runs/<uuid:run_id>/files/<str:name>/", title=_("File of a run"), name="run_file")
@require_safe
def run_file(request: HttpRequest, run_id: uuid.UUID, name: str) -> FileResponse:
    run = selectors.run_visible(actor=actor_of(request), run_id=run_id)
    artifact = selectors.artifact_or_404(run, name)
    return serve(
        artifact.storage_key,
        filename=filename(run, artifact.name),
        content_type=mimetypes.guess_type(artifact.name)[0] or "application/octet-stream",
        size=artifact.size_bytes,
    )
