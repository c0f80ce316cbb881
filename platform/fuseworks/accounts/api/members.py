"""GET teams/SLUG/members/: who is in a team, owners first."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from fuseworks.accounts import selectors
from fuseworks.accounts.models import Membership
from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint


class MemberSerializer(serializers.ModelSerializer[Membership]):
    email = serializers.EmailField(source="user.email", read_only=True)
    name = serializers.CharField(source="user.name", read_only=True)
    joined_at = serializers.DateTimeField(source="created_at", read_only=True)

    class Meta:
        model = Membership
        fields = ("id", "email", "name", "role", "joined_at")


@endpoint("teams/<slug:slug>/members/", name="members")
class Members(ListAPIView[Membership]):
    serializer_class = MemberSerializer
    queryset = Membership.objects.none()  # tells the API's description the model

    def get_queryset(self) -> QuerySet[Membership]:
        actor = actor_of(self.request)
        return selectors.members(actor=actor, team=selectors.team(actor=actor, slug=self.kwargs["slug"]))

    @extend_schema(summary="The members of a team")
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)
