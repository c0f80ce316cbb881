"""A team: members with their roles, open invitations, what it uses of its quota, and the forms by which owners change
them."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST, require_safe

from fuseworks.accounts import selectors, services
from fuseworks.accounts.forms import InviteForm, RenameForm
from fuseworks.accounts.models import Role, Team
from fuseworks.accounts.permissions import MANAGE, Actor, actor_of, is_operator, may, require
from fuseworks.accounts.telling import as_message, at_field
from fuseworks.core.discovery import page
from fuseworks.registry.usage import usage


@page("teams/<slug:slug>/", title=_("Team"), name="team")
@require_safe
def team(request: HttpRequest, slug: str) -> HttpResponse:
    actor = actor_of(request)
    return team_page(request, actor, selectors.team(actor=actor, slug=slug))


def team_page(request: HttpRequest, actor: Actor, team: Team, **context: Any) -> HttpResponse:
    """`invite_form`, `rename_form`: one with errors; `invited`: an invitation that was just made, and
    `link`, where it is to be passed on by hand."""
    managing = may(actor, team, MANAGE)
    context = {
        "team": team,
        "role": selectors.role_in(actor=actor, team=team),
        "roles": Role.choices,
        "members": selectors.members(actor=actor, team=team),
        "managing": managing,
        "usage": usage(team=team),
        "is_operator": is_operator(actor),
        "invitations": selectors.open_invitations(actor=actor, team=team) if managing else [],
        "invite_form": InviteForm() if managing else None,
        "rename_form": RenameForm(initial={"name": team.name}) if managing else None,
        **context,
    }
    return render(request, "accounts/team.html", context)


@page("teams/<slug:slug>/leave/", title=_("Leave team"), name="team_leave")
@require_POST
def leave(request: HttpRequest, slug: str) -> HttpResponse:
    actor = actor_of(request)
    team = selectors.team(actor=actor, slug=slug)
    with as_message(request):
        services.team_leave(actor=actor, team=team)
        messages.success(request, _("You have left %(team)s.") % {"team": team.name})
        return redirect("teams")
    return redirect("team", slug=slug)


@page("teams/<slug:slug>/rename/", title=_("Rename team"), name="team_rename")
@require_POST
def rename(request: HttpRequest, slug: str) -> HttpResponse:
    actor = actor_of(request)
    team = selectors.team(actor=actor, slug=slug)
    require(actor, team, MANAGE)
    form = RenameForm(request.POST)
    if form.is_valid():
        with at_field(form, "name"):
            renamed = services.team_rename(actor=actor, team=team, name=form.cleaned_data["name"])
            messages.success(request, _("The team is now called %(name)s. Its address stays.") % {"name": renamed.name})
            return redirect("team", slug=slug)
    return team_page(request, actor, team, rename_form=form)
