"""teams/SLUG/: one team, the caller's role in it and what it uses of its quota; PATCH gives it another name. Owners."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts import selectors, services
from fuseworks.accounts.api.teams import TeamSerializer
from fuseworks.accounts.api.usage import UsageSerializer
from fuseworks.accounts.models import Role, Team
from fuseworks.accounts.permissions import Actor, actor_of
from fuseworks.core.bodies import Body
from fuseworks.core.discovery import endpoint
from fuseworks.registry.usage import usage


class TeamDetailSerializer(TeamSerializer):
    role = serializers.SerializerMethodField(help_text="the caller's")
    usage = serializers.SerializerMethodField()

    class Meta:
        model = Team
        fields = (*TeamSerializer.Meta.fields, "role", "usage")

    def get_role(self, team: Team) -> Role:
        return self.context["role"]  # type: ignore[no-any-return]

    @extend_schema_field(UsageSerializer)
    def get_usage(self, team: Team) -> Any:
        return UsageSerializer(usage(team=team)).data


class NewNameSerializer(Body):
    name = serializers.CharField(max_length=80)


@endpoint("teams/<slug:slug>/", name="team")
class TeamDetail(APIView):
    @extend_schema(summary="A team", responses=TeamDetailSerializer)
    def get(self, request: Request, slug: str) -> Response:
        actor = actor_of(request)
        return _detail(actor, selectors.team(actor=actor, slug=slug))

    @extend_schema(summary="Rename a team; its slug stays", request=NewNameSerializer, responses=TeamDetailSerializer)
    def patch(self, request: Request, slug: str) -> Response:
        actor = actor_of(request)
        team = selectors.team(actor=actor, slug=slug)
        asked = NewNameSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        return _detail(actor, services.team_rename(actor=actor, team=team, name=asked.validated_data["name"]))


def _detail(actor: Actor, team: Team) -> Response:
    context: dict[str, Any] = {"role": selectors.role_in(actor=actor, team=team)}
    return Response(TeamDetailSerializer(team, context=context).data)
