"""teams/SLUG/invitations/: the open ones; POST makes one. Its link goes by mail; where none is sent, it stands in that
answer only. Owners."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from fuseworks.accounts import mail, selectors, services
from fuseworks.accounts.models import Invitation, Role
from fuseworks.accounts.permissions import actor_of
from fuseworks.accounts.services.invitations import MAX_EMAIL_CHARACTERS
from fuseworks.core.bodies import Body
from fuseworks.core.discovery import endpoint


class InvitationSerializer(serializers.ModelSerializer[Invitation]):
    class Meta:
        model = Invitation
        fields = ("id", "email", "role", "created_at", "expires_at")


class NewInvitationSerializer(Body):
    email = serializers.EmailField(max_length=MAX_EMAIL_CHARACTERS)
    role = serializers.ChoiceField(choices=Role.choices)


class IssuedInvitationSerializer(InvitationSerializer):
    link = serializers.SerializerMethodField(
        help_text="null where it goes to the address by e-mail; else told once: whoever holds it may join once, and "
        "make the account of that address"
    )

    class Meta:
        model = Invitation
        fields = (*InvitationSerializer.Meta.fields, "link")

    def get_link(self, invitation: Invitation) -> str | None:
        link: str | None = self.context["link"]
        return link


@endpoint("teams/<slug:slug>/invitations/", name="invitations")
class Invitations(ListAPIView[Invitation]):
    serializer_class = InvitationSerializer
    queryset = Invitation.objects.none()  # tells the API's description the model

    def get_queryset(self) -> QuerySet[Invitation]:
        actor = actor_of(self.request)
        return selectors.open_invitations(actor=actor, team=selectors.team(actor=actor, slug=self.kwargs["slug"]))

    @extend_schema(summary="The open invitations of a team")
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(summary="Invite", request=NewInvitationSerializer, responses={201: IssuedInvitationSerializer})
    def post(self, request: Request, slug: str) -> Response:
        actor = actor_of(request)
        team = selectors.team(actor=actor, slug=slug)
        asked = NewInvitationSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        invited = services.invitation_create(actor=actor, team=team, **asked.validated_data)
        link = None
        if not mail.configured():
            link = request.build_absolute_uri(reverse("invitation", kwargs={"token": invited.token}))
        document = IssuedInvitationSerializer(invited.invitation, context={"link": link}).data
        return Response(document, status=201, headers={"Cache-Control": "no-store"})
