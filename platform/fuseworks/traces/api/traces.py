"""`traces/`: the profiler traces of one's teams. They come in by `uploads/` with the kind `job`, or by `trace_file`."""

from __future__ import annotations

from typing import Any

import django_filters
from rest_framework import generics

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint
from fuseworks.registry.models import ModelVersion
from fuseworks.traces import selectors
from fuseworks.traces.api.serializers import TraceSerializer


class TraceFilter(django_filters.FilterSet):
    q = django_filters.CharFilter(method="search", label="words in the name of the job, the file or the team")
    team = django_filters.CharFilter(field_name="model__team__slug", label="slug of the team")
    job = django_filters.UUIDFilter(field_name="model", label="id of the job")
    sha256 = django_filters.CharFilter(field_name="sha256", lookup_expr="iexact")
    deleted = django_filters.BooleanFilter(field_name="deleted_at", lookup_expr="isnull", exclude=True)

    class Meta:
        model = ModelVersion
        fields: list[str] = []  # noqa: RUF012

    def search(self, traces: Any, name: str, value: str) -> Any:
        return selectors.search(traces, value)


@endpoint("traces/", name="trace-list")
class Traces(generics.ListAPIView[ModelVersion]):
    """Newest first, deleted ones too, each with the run that diagnoses it."""

    serializer_class = TraceSerializer
    filterset_class = TraceFilter
    queryset = ModelVersion.objects.none()  # for the schema

    def get_queryset(self) -> Any:
        return selectors.traces_list(actor=actor_of(self.request))
