"""What each team uses of its quota, and the forms that change quotas: for operators of the installation, who see names
and bytes here and nothing of what the teams keep."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from fuseworks.accounts import selectors, services
from fuseworks.accounts.forms import QuotaForm
from fuseworks.accounts.permissions import Actor, actor_of, require_operator
from fuseworks.core.discovery import page
from fuseworks.core.figures import size
from fuseworks.core.lookup import get_or_404
from fuseworks.registry.usage import usage, usages


@page("quotas/", title=_("Quotas"), name="quotas")
@require_safe
@never_cache
def quotas(request: HttpRequest) -> HttpResponse:
    require_operator(actor_of(request))
    teams = list(selectors.teams_by_unit())
    found = usages(teams=teams)
    return render(request, "accounts/quotas.html", {"rows": [(team, found[team.pk]) for team in teams]})


@page("quotas/<slug:slug>/", title=_("Quota"), name="quota")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def quota(request: HttpRequest, slug: str) -> HttpResponse:
    actor = actor_of(request)
    require_operator(actor)
    team = get_or_404(selectors.teams_by_unit(), what="team", slug=slug)
    given = f"{team.quota_bytes} B" if team.quota_bytes is not None else ""
    form = QuotaForm(request.POST if request.method == "POST" else None, initial={"quota": given})
    if form.is_valid():
        return _changed(request, actor, team, form.cleaned_data["quota"])
    return render(request, "accounts/quota.html", {"team": team, "usage": usage(team=team), "form": form})


def _changed(request: HttpRequest, actor: Actor, team: Any, quota_bytes: int | None) -> HttpResponse:
    changed = usage(team=services.quota_change(actor=actor, team=team, quota_bytes=quota_bytes))
    told = {"team": team.name, "size": size(changed.quota_bytes)}
    messages.success(request, _("The quota of %(team)s is now %(size)s.") % told)
    return redirect("quotas")
