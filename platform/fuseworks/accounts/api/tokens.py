"""tokens/: the caller's API tokens. POST makes one, shown in that answer only, and needs a session: no token can."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from fuseworks.accounts import selectors, services
from fuseworks.accounts.models import ApiToken, Scope
from fuseworks.accounts.permissions import actor_of
from fuseworks.core.bodies import Body
from fuseworks.core.discovery import endpoint
from fuseworks.core.errors import PlatformError


class TokenSerializer(serializers.ModelSerializer[ApiToken]):
    team = serializers.SlugField(source="team.slug", allow_null=True, default=None, help_text="null: all your teams")
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=Scope.choices))

    class Meta:
        model = ApiToken
        fields = ("id", "name", "prefix", "team", "scopes", "created_at", "expires_at", "last_used_at")


class NewTokenSerializer(Body):
    name = serializers.CharField(max_length=80)
    team = serializers.SlugField(allow_null=True, default=None, help_text="its slug; null: all your teams")
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=Scope.choices), allow_empty=False)
    expires_in_days = serializers.IntegerField(
        min_value=1, max_value=3650, allow_null=True, default=90, help_text="null: never"
    )


class IssuedTokenSerializer(TokenSerializer):
    token = serializers.SerializerMethodField(help_text="told once")

    class Meta:
        model = ApiToken
        fields = (*TokenSerializer.Meta.fields, "token")

    def get_token(self, row: ApiToken) -> str:
        return str(self.context["token"])


@endpoint("tokens/", name="tokens")
class Tokens(ListAPIView[ApiToken]):
    serializer_class = TokenSerializer
    queryset = ApiToken.objects.none()  # tells the API's description the model

    def get_queryset(self) -> QuerySet[ApiToken]:
        return selectors.tokens(actor=actor_of(self.request))

    @extend_schema(summary="Your API tokens; by a token: itself")
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        summary="Make an API token (signed in by a session only)",
        request=NewTokenSerializer,
        responses={201: IssuedTokenSerializer},
    )
    def post(self, request: Request) -> Response:
        actor = actor_of(request)
        if actor.token is not None:
            raise PlatformError("accounts:usage:session-only")
        asked = NewTokenSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        slug = asked.validated_data.pop("team")
        team = None if slug is None else selectors.team(actor=actor, slug=slug)
        issued = services.token_create(actor=actor, team=team, **asked.validated_data)
        document = IssuedTokenSerializer(issued.row, context={"token": issued.token}).data
        return Response(document, status=201, headers={"Cache-Control": "no-store"})
