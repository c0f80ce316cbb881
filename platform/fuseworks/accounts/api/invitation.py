"""DELETE teams/SLUG/invitations/ID/: revokes an invitation. Owners."""

from __future__ import annotations

import uuid

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts import selectors, services
from fuseworks.accounts.models import Invitation as Row
from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint
from fuseworks.core.lookup import get_or_404


@endpoint("teams/<slug:slug>/invitations/<uuid:invitation_id>/", name="invitation")
class Invitation(APIView):
    @extend_schema(summary="Revoke an invitation", responses={204: None})
    def delete(self, request: Request, slug: str, invitation_id: uuid.UUID) -> Response:
        actor = actor_of(request)
        team = selectors.team(actor=actor, slug=slug)
        visible = Row.objects.visible_to(actor).select_related("team")
        invitation = get_or_404(visible, what="invitation", pk=invitation_id, team=team)
        services.invitation_revoke(actor=actor, invitation=invitation)
        return Response(status=204)
