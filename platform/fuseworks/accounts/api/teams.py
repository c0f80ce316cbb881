"""teams/: the caller's teams; POST makes one in a business unit where he owns a team."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from fuseworks.accounts import selectors, services
from fuseworks.accounts.models import Team
from fuseworks.accounts.permissions import actor_of
from fuseworks.core.bodies import Body
from fuseworks.core.discovery import endpoint
from fuseworks.core.lookup import get_or_404


class TeamSerializer(serializers.ModelSerializer[Team]):
    business_unit = serializers.SlugField(source="business_unit.slug")

    class Meta:
        model = Team
        fields = ("id", "slug", "name", "business_unit", "created_at")


class NewTeamSerializer(Body):
    name = serializers.CharField(max_length=80)
    business_unit = serializers.SlugField(help_text="its slug")


@endpoint("teams/", name="teams")
class Teams(ListAPIView[Team]):
    serializer_class = TeamSerializer
    queryset = Team.objects.none()  # tells the API's description the model

    def get_queryset(self) -> QuerySet[Team]:
        return selectors.teams(actor=actor_of(self.request))

    @extend_schema(summary="Your teams")
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(summary="Make a team", request=NewTeamSerializer, responses={201: TeamSerializer})
    def post(self, request: Request) -> Response:
        actor = actor_of(request)
        asked = NewTeamSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        units = selectors.business_units(actor=actor)
        unit = get_or_404(units, what="business unit", slug=asked.validated_data["business_unit"])
        team = services.team_create(actor=actor, business_unit=unit, name=asked.validated_data["name"])
        return Response(TeamSerializer(team).data, status=201)
