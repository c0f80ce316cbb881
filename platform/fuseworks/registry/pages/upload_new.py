"""The page by which a model comes in: by the island `upload` in resumable pieces, or without JavaScript as one form."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.files.uploadhandler import TemporaryFileUploadHandler
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods

from fuseworks.accounts.permissions import Actor, actor_of
from fuseworks.core.discovery import page
from fuseworks.core.errors import PlatformError
from fuseworks.core.numbers import whole_number
from fuseworks.core.telling import sentence_of
from fuseworks.registry import selectors
from fuseworks.registry.forms import UploadForm
from fuseworks.registry.services import upload_whole
from optimizer.uploads.foreign import SUFFIXES, Foreign
from optimizer.uploads.formats import ACCEPTED, MIB

CHUNK_BYTES = 16 << 20
FORM_BYTES = 1 << 20
NO_ID = "00000000-0000-0000-0000-000000000000"


# The check reads the form, and with it the whole file: not before the handler below is set.
@page("uploads/new/", title=_("Upload a model"), name="upload_new")
@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
def upload_new(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        size_bytes = whole_number(request.META.get("CONTENT_LENGTH") or "") or 0
        if size_bytes > settings.MAX_UPLOAD_BYTES + FORM_BYTES:
            size_mib, limit_mib = size_bytes // MIB, settings.MAX_UPLOAD_BYTES // MIB
            raise PlatformError("registry:usage:too-large", size_mib=size_mib, limit_mib=limit_mib, format="model")
        actor = actor_of(request)
        if not selectors.teams_to_upload(actor=actor).exists():  # nothing is done: the form need not be read at all
            return _page(request, actor, UploadForm(actor=actor), status=403)
        request.upload_handlers = [TemporaryFileUploadHandler(request)]
    return _upload_new(request)


@csrf_protect
def _upload_new(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    if request.method != "POST":
        initial = {name: request.GET.get(name, "") for name in ("team", "model")}
        return _page(request, actor, UploadForm(actor=actor, initial=initial))
    form = UploadForm(request.POST, request.FILES, actor=actor)
    if form.is_valid():
        file = form.cleaned_data["file"]
        try:
            version = upload_whole(
                actor=actor,
                team=form.cleaned_data["team"],
                filename=file.name,
                stream=file,
                length_bytes=file.size,
                model=form.cleaned_data["model"],
                model_name=form.cleaned_data["model_name"],
            )
            return redirect("version", version_id=version.pk)
        except PlatformError as error:
            if not error.id.startswith("registry:"):
                raise
            form.add_error("model_name" if error.place == "name" else "file", sentence_of(error))
    return _page(request, actor, form)


def _page(request: HttpRequest, actor: Actor, form: UploadForm, status: int = 200) -> HttpResponse:
    context = {
        "form": form,
        "accepted": ACCEPTED,
        "limit_bytes": settings.MAX_UPLOAD_BYTES,
        "may_upload": selectors.teams_to_upload(actor=actor).exists(),
        "api": request.build_absolute_uri(reverse("api:upload-list")),
        "island": _island(),
    }
    return render(request, "registry/upload.html", context, status=422 if form.errors else status)


def _refusal(found: Foreign) -> str:
    """What a file of a known foreign suffix is, and how to export it anew, as the site would say it once it is sent."""
    return sentence_of(PlatformError("registry:user:foreign", what=found.what, remedy=found.remedy))


def _island() -> dict[str, Any]:
    """What the island needs to know, its words among it: they are translated here."""
    return {
        "uploads": reverse("api:upload-list"),
        "version": reverse("version", args=[NO_ID]),
        "accepted": ACCEPTED,
        "foreign": {suffix: _refusal(found) for suffix, found in SUFFIXES.items()},
        "chunkBytes": CHUNK_BYTES,
        "words": words(),
    }


def words() -> dict[str, str]:
    """What the island says, in the reader's language."""
    return {
        "refusedSuffix": gettext("This file is none of:"),
        "starting": gettext("Starting …"),
        "resuming": gettext("Resuming where it broke off …"),
        "sending": gettext("{done} of {total} sent"),
        "waiting": gettext("The connection broke. Trying again in {seconds} s; nothing that was sent is lost."),
        "checking": gettext("All sent; the file is being checked …"),
        "cancelled": gettext("Cancelled."),
        "failed": gettext("The site does not answer. Choose the same file again later to resume."),
        "noFile": gettext("Choose the model's file."),
        "noTeam": gettext("Choose a team."),
        "noName": gettext("Name the new model, or choose one that is there."),
    }
