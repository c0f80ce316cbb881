"""Starts an explain run of a version: what it would come to on a GPU that is not there. Measures nothing."""

from __future__ import annotations

import uuid

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import page
from fuseworks.core.errors import PlatformError
from fuseworks.core.telling import message_of
from fuseworks.registry import selectors
from fuseworks.registry.forms import PredictForm
from fuseworks.registry.pages.version import version_page
from fuseworks.runs.models import Purpose
from fuseworks.runs.services import run_create


@page("versions/<uuid:version_id>/predict/", title=_("Predict"), name="version_predict")
@require_POST
def version_predict(request: HttpRequest, version_id: uuid.UUID) -> HttpResponse:
    actor = actor_of(request)
    version = selectors.version_get(actor=actor, version_id=version_id)
    form = PredictForm(request.POST, prefix="predict")
    if form.is_valid():
        try:
            target = form.cleaned_data["target"]
            run = run_create(actor=actor, version=version, purpose=Purpose.EXPLAIN, target=target)
            return redirect("run", run_id=run.pk)
        except PlatformError as error:
            if error.id != "runs:usage:field":
                raise
            form.add_error(None, message_of(error))
    return version_page(request, actor, version, predict_form=form)
