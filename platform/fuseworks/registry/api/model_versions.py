"""`models/<uuid>/versions/`: all versions of a model, deleted ones too, the newest first."""

from __future__ import annotations

import uuid
from typing import Any

import django_filters
from rest_framework import generics

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint
from fuseworks.registry import selectors
from fuseworks.registry.api.serializers import VersionSerializer
from fuseworks.registry.models import ModelVersion


class VersionFilter(django_filters.FilterSet):
    sha256 = django_filters.CharFilter(field_name="sha256", lookup_expr="iexact")
    number = django_filters.NumberFilter(field_name="number")
    deleted = django_filters.BooleanFilter(field_name="deleted_at", lookup_expr="isnull", exclude=True)

    class Meta:
        model = ModelVersion
        fields: list[str] = []  # noqa: RUF012


@endpoint("models/<uuid:model_id>/versions/", name="model-version-list")
class ModelVersions(generics.ListAPIView[ModelVersion]):
    serializer_class = VersionSerializer
    filterset_class = VersionFilter
    queryset = ModelVersion.objects.none()  # for the schema

    def get_queryset(self) -> Any:
        model_id: uuid.UUID = self.kwargs["model_id"]
        return selectors.versions_of(model=selectors.model_get(actor=actor_of(self.request), model_id=model_id))
