"""One's own teams by business unit, and making a new one where one owns a team already."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as translate
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods, require_safe

from fuseworks.accounts import selectors, services
from fuseworks.accounts.forms import TeamForm
from fuseworks.accounts.permissions import actor_of
from fuseworks.accounts.telling import at_field
from fuseworks.core.discovery import page
from fuseworks.core.errors import PlatformError


@page("teams/", title=_("Teams"), name="teams")
@require_safe
def teams(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    context = {
        "units": selectors.own_teams_by_unit(actor=actor),
        "may_found": selectors.units_to_found_in(actor=actor).exists(),
    }
    return render(request, "accounts/teams.html", context)


# Not below teams/: "new" would be read as a team's slug.
@page("new-team/", title=_("New team"), name="team_new")
@require_http_methods(["GET", "HEAD", "POST"])
def team_new(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    units = selectors.units_to_found_in(actor=actor)
    if not units.exists():
        raise PlatformError("core:usage:refused", text=translate("only an owner of a team can make another one"))
    form = TeamForm(request.POST if request.method == "POST" else None, units=units)
    if form.is_valid():
        with at_field(form, "name"):
            team = services.team_create(actor=actor, **form.cleaned_data)
            messages.success(request, _("The team is made. Invite its members."))
            return redirect("team", slug=team.slug)
    return render(request, "accounts/team_new.html", {"form": form})
