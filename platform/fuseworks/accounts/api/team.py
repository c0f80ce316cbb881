"""GET teams/SLUG/: one team and the caller's role in it."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts import selectors
from fuseworks.accounts.api.teams import TeamSerializer
from fuseworks.accounts.models import Role, Team
from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint


class TeamDetailSerializer(TeamSerializer):
    role = serializers.SerializerMethodField(help_text="the caller's")

    class Meta:
        model = Team
        fields = (*TeamSerializer.Meta.fields, "role")

    def get_role(self, team: Team) -> Role:
        return self.context["role"]  # type: ignore[no-any-return]


@endpoint("teams/<slug:slug>/", name="team")
class TeamDetail(APIView):
    @extend_schema(summary="A team", responses=TeamDetailSerializer)
    def get(self, request: Request, slug: str) -> Response:
        actor = actor_of(request)
        team = selectors.team(actor=actor, slug=slug)
        context: dict[str, Any] = {"role": selectors.role_in(actor=actor, team=team)}
        return Response(TeamDetailSerializer(team, context=context).data)
