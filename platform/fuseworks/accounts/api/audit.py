"""GET teams/SLUG/audit/: the audit log of a team, newest first. Owners."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from fuseworks.accounts import audit_log, selectors
from fuseworks.accounts.models import AuditEntry
from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint


class AuditEntrySerializer(serializers.ModelSerializer[AuditEntry]):
    who = serializers.SerializerMethodField(help_text="null: a command on the server, or the site by itself")

    class Meta:
        model = AuditEntry
        fields = ("id", "created_at", "who", "action", "object_type", "object_id", "detail", "address")
        read_only_fields = fields

    def get_who(self, entry: AuditEntry) -> str | None:
        return entry.actor.name_in_api if entry.actor is not None else None


class AuditQuery(serializers.Serializer[Any]):
    what = serializers.CharField(required=False, max_length=60, help_text="a part of the action, as recipe.")
    who = serializers.CharField(required=False, max_length=100, help_text="a part of an address or a name")
    since = serializers.DateField(required=False, help_text="a day of UTC, itself in")
    until = serializers.DateField(required=False, help_text="a day of UTC, itself in")


@endpoint("teams/<slug:slug>/audit/", name="audit")
class Audit(generics.GenericAPIView[AuditEntry]):
    serializer_class = AuditEntrySerializer
    queryset = AuditEntry.objects.none()  # tells the API's description the model
    filter_backends = ()

    @extend_schema(
        summary="The audit log of a team",
        parameters=[AuditQuery],
        responses=AuditEntrySerializer(many=True),
    )
    def get(self, request: Request, slug: str) -> Response:
        actor = actor_of(request)
        team = selectors.team(actor=actor, slug=slug)
        asked = AuditQuery(data=request.query_params)
        asked.is_valid(raise_exception=True)
        page = self.paginate_queryset(audit_log.entries(actor=actor, team=team, **asked.validated_data))
        return self.get_paginated_response(AuditEntrySerializer(page, many=True).data)
