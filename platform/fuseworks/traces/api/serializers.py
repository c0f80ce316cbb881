"""How the API shows traces."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from fuseworks.registry.models import ModelVersion
from fuseworks.runs.models import Status


class TraceSerializer(serializers.ModelSerializer[ModelVersion]):
    """`run` is the last one that diagnosed it by itself; its diagnosis is at `diagnosis`."""

    team = serializers.CharField(source="model.team.slug", read_only=True)
    job = serializers.UUIDField(source="model_id", read_only=True)
    job_name = serializers.CharField(source="model.name", read_only=True)
    uploaded_by = serializers.SerializerMethodField()
    run = serializers.UUIDField(source="run_id", read_only=True, allow_null=True)
    run_status = serializers.ChoiceField(choices=Status.choices, read_only=True, allow_null=True)
    summary = serializers.CharField(source="run_summary", read_only=True, allow_null=True)
    diagnosis = serializers.SerializerMethodField(help_text="address of what that run found, once it succeeded")
    page = serializers.SerializerMethodField()
    file = serializers.SerializerMethodField(help_text="its bytes, as Perfetto opens them; null once it was deleted")

    class Meta:
        model = ModelVersion
        fields = (
            "id",
            "team",
            "job",
            "job_name",
            "number",
            "filename",
            "sha256",
            "size_bytes",
            "uploaded_by",
            "created_at",
            "deleted_at",
            "run",
            "run_status",
            "summary",
            "diagnosis",
            "page",
            "file",
        )

    @extend_schema_field({"type": ["string", "null"]})
    def get_uploaded_by(self, trace: ModelVersion) -> str | None:
        return trace.uploaded_by.name_in_api if trace.uploaded_by is not None else None

    @extend_schema_field({"type": ["string", "null"], "format": "uri"})
    def get_diagnosis(self, trace: Any) -> str | None:
        succeeded = trace.run_status == Status.SUCCEEDED
        return self._absolute(reverse("api:run-diagnosis", args=[trace.run_id])) if succeeded else None

    @extend_schema_field({"type": "string", "format": "uri"})
    def get_page(self, trace: ModelVersion) -> str:
        return self._absolute(reverse("trace", args=[trace.pk]))

    @extend_schema_field({"type": ["string", "null"], "format": "uri"})
    def get_file(self, trace: ModelVersion) -> str | None:
        return self._absolute(reverse("api:version-file", args=[trace.pk])) if trace.storage_key else None

    def _absolute(self, address: str) -> str:
        return str(self.context["request"].build_absolute_uri(address))
