"""The page by which traces come in: by the island `upload` in resumable pieces, or without JavaScript as one form."""

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
from fuseworks.registry.models import Kind
from fuseworks.registry.pages.upload_new import CHUNK_BYTES, FORM_BYTES, NO_ID, words
from fuseworks.registry.selectors import teams_to_upload
from fuseworks.registry.services import upload_whole
from fuseworks.traces.forms import TraceForm
from fuseworks.traces.zipping import NAME, one_file
from optimizer.uploads.formats import MIB
from optimizer.uploads.traces import ACCEPTED


# As on the page for models: the check reads the form, and with it the files; not before the handler below is set.
@page("traces/new/", title=_("Upload traces"), name="trace_new")
@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
def trace_new(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        size_bytes = whole_number(request.META.get("CONTENT_LENGTH") or "") or 0
        if size_bytes > settings.MAX_UPLOAD_BYTES + FORM_BYTES:
            size_mib, limit_mib = size_bytes // MIB, settings.MAX_UPLOAD_BYTES // MIB
            raise PlatformError("registry:usage:large-trace", size_mib=size_mib, limit_mib=limit_mib)
        actor = actor_of(request)
        if not teams_to_upload(actor=actor).exists():  # nothing is done: the form need not be read at all
            return _page(request, actor, TraceForm(actor=actor), status=403)
        request.upload_handlers = [TemporaryFileUploadHandler(request)]
    return _trace_new(request)


@csrf_protect
def _trace_new(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    if request.method != "POST":
        initial = {name: request.GET.get(name, "") for name in ("team", "model")}
        return _page(request, actor, TraceForm(actor=actor, initial=initial))
    form = TraceForm(request.POST, request.FILES, actor=actor)
    if form.is_valid():
        try:
            with one_file(form.cleaned_data["file"]) as (name, stream, size_bytes):
                trace = upload_whole(
                    actor=actor,
                    team=form.cleaned_data["team"],
                    filename=name,
                    stream=stream,
                    length_bytes=size_bytes,
                    model=form.cleaned_data["model"],
                    model_name=form.cleaned_data["model_name"],
                    kind=Kind.JOB,
                )
            return redirect("trace", version_id=trace.pk)
        except PlatformError as error:
            if not error.id.startswith("registry:"):
                raise
            form.add_error("model_name" if error.place == "name" else "file", sentence_of(error))
    return _page(request, actor, form)


def _page(request: HttpRequest, actor: Actor, form: TraceForm, status: int = 200) -> HttpResponse:
    context = {
        "form": form,
        "accepted": ACCEPTED,
        "limit_bytes": settings.MAX_UPLOAD_BYTES,
        "may_upload": teams_to_upload(actor=actor).exists(),
        "api": request.build_absolute_uri(reverse("api:trace-list")),
        "island": _island(),
    }
    return render(request, "traces/upload.html", context, status=422 if form.errors else status)


def _island() -> dict[str, Any]:
    """As `registry.pages.upload_new` gives it, for traces: several files are zipped before they are sent."""
    return {
        "uploads": reverse("api:upload-list"),
        "version": reverse("trace", args=[NO_ID]),
        "kind": Kind.JOB.value,
        "zip": NAME,
        "accepted": ACCEPTED,
        "foreign": {},
        "chunkBytes": CHUNK_BYTES,
        "words": {
            **words(),
            "noFile": gettext("Choose the traces."),
            "noName": gettext("Name the new job, or choose one that is there."),
            "zipping": gettext("Packing {name} …"),
            "tooLarge": gettext("These are more than 4 GiB together: zip them yourself, and send the zip."),
        },
    }
