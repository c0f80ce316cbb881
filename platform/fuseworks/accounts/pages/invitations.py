"""Inviting to a team from its page. Whoever opens the link may make the account of the invited address, so where mail
is sent only that address gets it. Elsewhere it is shown in the very answer, once: it is stored nowhere."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from fuseworks.accounts import mail, selectors, services
from fuseworks.accounts.forms import InviteForm
from fuseworks.accounts.models import Invitation
from fuseworks.accounts.pages.team import team_page
from fuseworks.accounts.permissions import MANAGE, actor_of, require
from fuseworks.accounts.telling import at_field
from fuseworks.core.discovery import page
from fuseworks.core.lookup import get_or_404


@page("teams/<slug:slug>/invite/", title=_("Invite"), name="team_invite")
@require_POST
@never_cache
def invite(request: HttpRequest, slug: str) -> HttpResponse:
    actor = actor_of(request)
    team = selectors.team(actor=actor, slug=slug)
    require(actor, team, MANAGE)
    form = InviteForm(request.POST)
    if form.is_valid():
        with at_field(form, "email"):
            invited = services.invitation_create(actor=actor, team=team, **form.cleaned_data)
            link = None
            if not mail.configured():
                link = request.build_absolute_uri(reverse("invitation", kwargs={"token": invited.token}))
            return team_page(request, actor, team, link=link, invited=invited.invitation)
    return team_page(request, actor, team, invite_form=form)


@page(
    "teams/<slug:slug>/invitations/<uuid:invitation_id>/revoke/",
    title=_("Revoke invitation"),
    name="invitation_revoke",
)
@require_POST
def revoke(request: HttpRequest, slug: str, invitation_id: uuid.UUID) -> HttpResponse:
    actor = actor_of(request)
    team = selectors.team(actor=actor, slug=slug)
    visible = Invitation.objects.visible_to(actor).select_related("team")
    invitation = get_or_404(visible, what="invitation", pk=invitation_id, team=team)
    services.invitation_revoke(actor=actor, invitation=invitation)
    messages.success(request, _("The invitation of %(email)s is revoked.") % {"email": invitation.email})
    return redirect("team", slug=slug)
