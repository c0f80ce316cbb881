"""`versions/<uuid>/workloads/`: the revisions of a version's workload, the newest first; a POST adds one."""

from __future__ import annotations

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers, status
from rest_framework.response import Response

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.bodies import Body
from fuseworks.core.discovery import endpoint
from fuseworks.registry import selectors
from fuseworks.registry.api.serializers import WorkloadSerializer
from fuseworks.registry.models import ModelVersion, Workload
from fuseworks.registry.services import workload_save


class NewWorkloadSerializer(Body):
    document = serializers.JSONField(help_text="optimizer.spec.Workload")
    based_on = serializers.IntegerField(
        required=False, min_value=0, help_text="the revision that you saw (0: none); refused when there is a newer one"
    )


@endpoint("versions/<uuid:version_id>/workloads/", name="version-workload-list")
class VersionWorkloads(generics.ListAPIView[Workload]):
    serializer_class = WorkloadSerializer
    filter_backends = ()
    queryset = Workload.objects.none()  # for the schema

    def get_queryset(self) -> Any:
        return selectors.workloads_of(version=self._version())

    @extend_schema(
        request=NewWorkloadSerializer,
        responses={201: WorkloadSerializer, 200: WorkloadSerializer},
    )
    def post(self, request: Any, version_id: uuid.UUID) -> Response:
        """Save a workload as the new current revision (201), or find that nothing differs (200)."""
        version = self._version()
        given = NewWorkloadSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        before = selectors.current_workload(version=version)
        saved = workload_save(
            actor=actor_of(request),
            version=version,
            document=given.validated_data["document"],
            based_on=given.validated_data.get("based_on"),
        )
        is_new = before is None or before.pk != saved.pk
        return Response(
            WorkloadSerializer(saved).data, status=status.HTTP_201_CREATED if is_new else status.HTTP_200_OK
        )

    def _version(self) -> ModelVersion:
        return selectors.version_get(actor=actor_of(self.request), version_id=self.kwargs["version_id"])
