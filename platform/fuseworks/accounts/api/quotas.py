"""quotas/: what each team of the installation uses of its quota; PATCH quotas/SLUG/ changes one. Operators."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts import selectors, services
from fuseworks.accounts.api.usage import UsageSerializer
from fuseworks.accounts.models import Team
from fuseworks.accounts.permissions import actor_of, require_operator
from fuseworks.accounts.sizes import MOST_BYTES
from fuseworks.core.bodies import Body
from fuseworks.core.discovery import endpoint
from fuseworks.core.lookup import get_or_404
from fuseworks.registry.usage import Usage, usage, usages


class QuotaSerializer(serializers.Serializer[Any]):
    team = serializers.SlugField()
    name = serializers.CharField()
    business_unit = serializers.SlugField()
    usage = UsageSerializer()


class NewQuotaSerializer(Body):
    quota_bytes = serializers.IntegerField(
        min_value=0, max_value=MOST_BYTES, allow_null=True, help_text="null: the site's default"
    )


@endpoint("quotas/", name="quotas")
class Quotas(generics.GenericAPIView[Team]):
    serializer_class = QuotaSerializer
    filter_backends = ()

    @extend_schema(summary="What the teams use of their quotas (operators)", responses=QuotaSerializer(many=True))
    def get(self, request: Request) -> Response:
        require_operator(actor_of(request))
        teams = self.paginate_queryset(selectors.teams_by_unit()) or []
        found = usages(teams=teams)
        return self.get_paginated_response([document(team, found[team.pk]) for team in teams])


@endpoint("quotas/<slug:slug>/", name="quota")
class Quota(APIView):
    @extend_schema(summary="Change a team's quota (operators)", request=NewQuotaSerializer, responses=QuotaSerializer)
    def patch(self, request: Request, slug: str) -> Response:
        actor = actor_of(request)
        require_operator(actor)
        asked = NewQuotaSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        team = get_or_404(selectors.teams_by_unit(), what="team", slug=slug)
        changed = services.quota_change(actor=actor, team=team, quota_bytes=asked.validated_data["quota_bytes"])
        return Response(document(changed, usage(team=changed)))


def document(team: Team, found: Usage) -> Any:
    told = {"team": team.slug, "name": team.name, "business_unit": team.business_unit.slug, "usage": found}
    return QuotaSerializer(told).data
