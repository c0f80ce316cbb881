"""GET me/: who the caller is, what his roles are, and what his token may do."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts import selectors
from fuseworks.accounts.api.tokens import TokenSerializer
from fuseworks.accounts.models import Membership, Role
from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint


class OwnTeamSerializer(serializers.ModelSerializer[Membership]):
    slug = serializers.SlugField(source="team.slug")
    name = serializers.CharField(source="team.name")
    business_unit = serializers.SlugField(source="team.business_unit.slug")
    role = serializers.ChoiceField(choices=Role.choices)

    class Meta:
        model = Membership
        fields = ("slug", "name", "business_unit", "role")


class MeSerializer(serializers.Serializer[Any]):
    email = serializers.EmailField()
    name = serializers.CharField()
    language = serializers.CharField(help_text="'en' or 'zh-hans'; empty: what the browser asks")
    teams = OwnTeamSerializer(many=True)
    token = TokenSerializer(allow_null=True, help_text="null when the caller is signed in by a session")


@endpoint("me/")
class Me(APIView):
    @extend_schema(summary="Who is calling", responses=MeSerializer)
    def get(self, request: Request) -> Response:
        actor = actor_of(request)
        document: dict[str, Any] = {
            "email": actor.user.email,
            "name": actor.user.name,
            "language": actor.user.language,
            "teams": selectors.own_memberships(actor=actor),
            "token": actor.token,
        }
        return Response(MeSerializer(document).data)
