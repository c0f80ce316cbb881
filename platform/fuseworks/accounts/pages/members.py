"""The forms of one button on a team's page: change a member's role, remove a member."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from fuseworks.accounts import selectors, services
from fuseworks.accounts.forms import RoleForm
from fuseworks.accounts.models import Membership
from fuseworks.accounts.permissions import Actor, actor_of
from fuseworks.accounts.telling import as_message
from fuseworks.core.discovery import page
from fuseworks.core.errors import PlatformError
from fuseworks.core.lookup import get_or_404


@page("teams/<slug:slug>/members/<uuid:member_id>/role/", title=_("Change role"), name="member_role")
@require_POST
def change_role(request: HttpRequest, slug: str, member_id: uuid.UUID) -> HttpResponse:
    actor = actor_of(request)
    membership = _membership(actor, slug, member_id)
    form = RoleForm(request.POST)
    if not form.is_valid():
        raise PlatformError("core:usage:invalid", text=_("role: not one of the roles"))
    with as_message(request):
        membership = services.member_role_change(actor=actor, membership=membership, role=form.cleaned_data["role"])
        told = {"name": str(membership.user), "role": membership.get_role_display()}
        messages.success(request, _("%(name)s is now: %(role)s.") % told)
    return redirect("team", slug=slug)


@page("teams/<slug:slug>/members/<uuid:member_id>/remove/", title=_("Remove member"), name="member_remove")
@require_POST
def remove(request: HttpRequest, slug: str, member_id: uuid.UUID) -> HttpResponse:
    actor = actor_of(request)
    membership = _membership(actor, slug, member_id)
    with as_message(request):
        services.member_remove(actor=actor, membership=membership)
        messages.success(request, _("%(name)s is no longer in the team.") % {"name": str(membership.user)})
        if membership.user_id == actor.user.pk:
            return redirect("teams")
    return redirect("team", slug=slug)


def _membership(actor: Actor, slug: str, member_id: uuid.UUID) -> Membership:
    visible = Membership.objects.visible_to(actor).select_related("team", "user")
    return get_or_404(visible, what="member", pk=member_id, team=selectors.team(actor=actor, slug=slug))
