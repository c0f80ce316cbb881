"""A team: members with their roles, open invitations, and the forms by which owners change them; its audit log."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST, require_safe

from fuseworks.accounts import selectors, services
from fuseworks.accounts.forms import InviteForm
from fuseworks.accounts.models import Role, Team
from fuseworks.accounts.permissions import MANAGE, Actor, actor_of, may
from fuseworks.accounts.telling import as_message
from fuseworks.core.discovery import page


@page("teams/<slug:slug>/", title=_("Team"), name="team")
@require_safe
def team(request: HttpRequest, slug: str) -> HttpResponse:
    actor = actor_of(request)
    return team_page(request, actor, selectors.team(actor=actor, slug=slug))


def team_page(request: HttpRequest, actor: Actor, team: Team, **context: Any) -> HttpResponse:
    """`invite_form`: one with errors; `link`: of an invitation that was just made."""
    managing = may(actor, team, MANAGE)
    context = {
        "team": team,
        "role": selectors.role_in(actor=actor, team=team),
        "roles": Role.choices,
        "members": selectors.members(actor=actor, team=team),
        "managing": managing,
        "invitations": selectors.open_invitations(actor=actor, team=team) if managing else [],
        "invite_form": InviteForm() if managing else None,
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


@page("teams/<slug:slug>/audit/", title=_("Audit log"), name="team_audit")
@require_safe
def audit(request: HttpRequest, slug: str) -> HttpResponse:
    actor = actor_of(request)
    team = selectors.team(actor=actor, slug=slug)
    return render(
        request,
        "accounts/audit.html",
        {
            "team": team,
            "entries": selectors.audit_log(actor=actor, team=team),
            "limit": selectors.AUDIT_ENTRIES_SHOWN,
        },
    )
