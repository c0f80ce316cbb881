"""One model: its versions, what is said of it, and its last runs."""

from __future__ import annotations

import uuid
from urllib.parse import urlencode

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from fuseworks.accounts.permissions import UPLOAD, actor_of, may
from fuseworks.core.discovery import page
from fuseworks.core.errors import PlatformError
from fuseworks.core.telling import sentence_of
from fuseworks.registry import selectors
from fuseworks.registry.forms import FAMILIES, DescriptionForm
from fuseworks.registry.models import Family, Kind
from fuseworks.registry.services import model_update

SHOWN_RUNS, VERSIONS_A_PAGE = 15, 25


@page("models/<uuid:model_id>/", title=_("Model"), name="model")
@require_http_methods(["GET", "HEAD", "POST"])
def model(request: HttpRequest, model_id: uuid.UUID) -> HttpResponse:
    actor = actor_of(request)
    model = selectors.model_get(actor=actor, model_id=model_id)
    if model.kind == Kind.JOB:
        return redirect(f"{reverse('traces')}?{urlencode({'q': model.name, 'team': model.team.slug})}")
    form = DescriptionForm(initial={"name": model.name, "family": model.family, "description": model.description})
    if request.method == "POST":
        form = DescriptionForm(request.POST)
        if form.is_valid():
            try:
                model_update(actor=actor, model=model, **form.cleaned_data)
                messages.success(request, gettext("Saved."))
                return redirect("model", model_id=model.pk)
            except PlatformError as error:
                if error.place != "name":
                    raise
                form.add_error("name", sentence_of(error))
                model.refresh_from_db()
    return render(
        request,
        "registry/model.html",
        {
            "model": model,
            "form": form,
            "family": FAMILIES.get(Family(model.family)),
            "page": Paginator(selectors.versions_of(model=model), VERSIONS_A_PAGE).get_page(request.GET.get("page")),
            "runs": selectors.runs_of(actor=actor, model=model)[:SHOWN_RUNS],
            "may_change": may(actor, model.team, UPLOAD),
        },
        status=422 if form.errors else 200,
    )
