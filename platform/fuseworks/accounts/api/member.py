"""teams/SLUG/members/ID/: PATCH changes the role, DELETE removes the member. Owners, and everybody for himself."""

from __future__ import annotations

import uuid

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts import selectors, services
from fuseworks.accounts.api.members import MemberSerializer
from fuseworks.accounts.models import Membership, Role
from fuseworks.accounts.permissions import actor_of
from fuseworks.core.bodies import Body
from fuseworks.core.discovery import endpoint
from fuseworks.core.lookup import get_or_404


class NewRoleSerializer(Body):
    role = serializers.ChoiceField(choices=Role.choices)


@endpoint("teams/<slug:slug>/members/<uuid:member_id>/", name="member")
class Member(APIView):
    @extend_schema(summary="Change a member's role", request=NewRoleSerializer, responses=MemberSerializer)
    def patch(self, request: Request, slug: str, member_id: uuid.UUID) -> Response:
        asked = NewRoleSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        membership = services.member_role_change(
            actor=actor_of(request),
            membership=self._membership(request, slug, member_id),
            role=asked.validated_data["role"],
        )
        return Response(MemberSerializer(membership).data)

    @extend_schema(summary="Remove a member, or leave", responses={204: None})
    def delete(self, request: Request, slug: str, member_id: uuid.UUID) -> Response:
        membership = self._membership(request, slug, member_id)
        services.member_remove(actor=actor_of(request), membership=membership)
        return Response(status=204)

    def _membership(self, request: Request, slug: str, member_id: uuid.UUID) -> Membership:
        actor = actor_of(request)
        team = selectors.team(actor=actor, slug=slug)
        visible = Membership.objects.visible_to(actor).select_related("team", "user")
        return get_or_404(visible, what="member", pk=member_id, team=team)
