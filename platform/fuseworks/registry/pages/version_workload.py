"""Saves a version's workload, out of the form's fields or as a whole out of the text."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from fuseworks.accounts.permissions import Actor, actor_of
from fuseworks.core.discovery import page
from fuseworks.core.errors import PlatformError
from fuseworks.core.numbers import whole_number
from fuseworks.registry import selectors, workload_text
from fuseworks.registry.models import ModelVersion
from fuseworks.registry.pages.version import version_page
from fuseworks.registry.services import workload_save
from fuseworks.registry.workload_form import WorkloadForm

SHOWN_AGAIN = ("registry:user:workload", "registry:usage:workload-changed")


@page("versions/<uuid:version_id>/workload/", title=_("Workload"), name="version_workload")
@require_POST
def version_workload(request: HttpRequest, version_id: uuid.UUID) -> HttpResponse:
    actor = actor_of(request)
    version = selectors.version_get(actor=actor, version_id=version_id)
    if "document" in request.POST:
        return _from_text(request, actor, version)
    return _from_fields(request, actor, version)


def _from_text(request: HttpRequest, actor: Actor, version: ModelVersion) -> HttpResponse:
    text = request.POST["document"]
    try:
        document = workload_text.parse(text)
        return _save(request, actor, version, document)
    except PlatformError as error:
        if error.id not in SHOWN_AGAIN:
            raise
        return version_page(request, actor, version, workload_text=text, text_error=error)


def _from_fields(request: HttpRequest, actor: Actor, version: ModelVersion) -> HttpResponse:
    """On top of the revision that the form showed: its inputs and dimensions are what the fields' numbers mean."""
    number = whole_number(request.POST.get("shown", ""))
    seen = selectors.workloads_of(version=version).filter(number=number).first() if number is not None else None
    if seen is None:
        raise PlatformError("registry:usage:no-workload", version=str(version))
    form = WorkloadForm.posted(seen.document, request.POST)
    document = form.document()
    if document is not None:
        try:
            return _save(request, actor, version, document)
        except PlatformError as error:
            if error.id not in SHOWN_AGAIN:
                raise
            form.take(error)
    return version_page(request, actor, version, workload_form=form, shown=seen)


def _save(request: HttpRequest, actor: Actor, version: ModelVersion, document: Any) -> HttpResponse:
    based_on = whole_number(request.POST.get("current", ""))
    saved = workload_save(actor=actor, version=version, document=document, based_on=based_on)
    messages.success(request, gettext("Revision %(number)s is the current workload.") % {"number": saved.number})
    return redirect("version", version_id=version.pk)
