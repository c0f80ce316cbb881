"""`models/`: those that the caller may see, and new ones without a version."""

from __future__ import annotations

from typing import Any

import django_filters
from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers, status
from rest_framework.response import Response

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.bodies import Body
from fuseworks.core.discovery import endpoint
from fuseworks.registry import selectors
from fuseworks.registry.api.serializers import ModelSerializer
from fuseworks.registry.models import Family, Kind, Model
from fuseworks.registry.services import model_create


class ModelFilter(django_filters.FilterSet):
    q = django_filters.CharFilter(method="search", label="words in name, description or team")
    team = django_filters.CharFilter(field_name="team__slug", label="slug of the team")
    name = django_filters.CharFilter(field_name="name", lookup_expr="iexact", label="the whole name")
    verdict = django_filters.CharFilter(field_name="verdict", label="of the last judged run")
    kind = django_filters.ChoiceFilter(choices=Kind.choices, label="model, unless said; job: what traces are of")

    class Meta:
        model = Model
        fields: list[str] = []  # noqa: RUF012

    def search(self, models: Any, name: str, value: str) -> Any:
        return selectors.search(models, value)


class NewModelSerializer(Body):
    team = serializers.SlugField(help_text="slug of the team")
    name = serializers.CharField(max_length=80)
    description = serializers.CharField(max_length=4000, required=False, allow_blank=True, default="")
    family = serializers.ChoiceField(choices=Family.choices, required=False, default=Family.OTHER)


@endpoint("models/", name="model-list")
class Models(generics.ListAPIView[Model]):
    serializer_class = ModelSerializer
    filterset_class = ModelFilter
    queryset = Model.objects.none()  # for the schema

    def get_queryset(self) -> Any:
        # a filter that is not sent would let jobs in
        kind = None if self.request.query_params.get("kind") else Kind.MODEL
        return selectors.models_list(actor=actor_of(self.request), kind=kind)

    @extend_schema(request=NewModelSerializer, responses={201: ModelSerializer})
    def post(self, request: Any) -> Response:
        """Make a model. An upload that names a new model makes it too."""
        given = NewModelSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        actor = actor_of(request)
        team = selectors.team_of(actor=actor, slug=given.validated_data["team"])
        fields = {name: given.validated_data[name] for name in ("name", "description", "family")}
        model = model_create(actor=actor, team=team, **fields)
        shown = selectors.models_list(actor=actor).get(pk=model.pk)
        data = ModelSerializer(shown, context=self.get_serializer_context()).data
        return Response(data, status=status.HTTP_201_CREATED)
