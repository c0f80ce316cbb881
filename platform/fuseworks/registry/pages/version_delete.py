"""Asks once, then deletes a version's file and, unless told not to, the packages that its runs made of it. Its page,
its runs and its evidence stay."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.db.models import Count, Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from fuseworks.accounts.permissions import DELETE, actor_of, require
from fuseworks.core.discovery import page
from fuseworks.registry import selectors
from fuseworks.registry.services import packages_of, runs_that_need
from fuseworks.registry.services import version_delete as delete


@page("versions/<uuid:version_id>/delete/", title=_("Delete version"), name="version_delete")
@require_http_methods(["GET", "HEAD", "POST"])
def version_delete(request: HttpRequest, version_id: uuid.UUID) -> HttpResponse:
    actor = actor_of(request)
    version = selectors.version_get(actor=actor, version_id=version_id)
    require(actor, version.model.team, DELETE)
    if request.method == "POST":
        delete(actor=actor, version=version, with_packages=request.POST.get("packages") == "delete")
        messages.success(request, gettext("The file of %(version)s was deleted.") % {"version": version})
        return redirect("version", version_id=version.pk)
    packages = packages_of(version).aggregate(count=Count("pk"), size_bytes=Sum("size_bytes"))
    needed = runs_that_need(version).count() if version.deleted_at is None else 0
    context = {"version": version, "runs": version.runs.count(), "packages": packages, "needed": needed}
    return render(request, "registry/version_delete.html", context)
