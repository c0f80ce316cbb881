"""How the API shows models, versions, workloads and uploads. The one place, since endpoints share them."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from fuseworks.core.errors import PlatformError
from fuseworks.registry import incoming
from fuseworks.registry.models import Model, ModelVersion, Upload, Workload
from fuseworks.registry.selectors import current_workload, inspect_run


class ModelBriefSerializer(serializers.ModelSerializer[Model]):
    team = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True)

    class Meta:
        model = Model
        fields = ("id", "name", "team")


class ModelSerializer(serializers.ModelSerializer[Model]):
    """With its newest version and the verdict of its last judged run, when there are any."""

    team = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True)
    business_unit = serializers.CharField(source="team.business_unit.slug", read_only=True)
    newest_version = serializers.UUIDField(source="newest_id", read_only=True, allow_null=True)
    newest_number = serializers.IntegerField(read_only=True, allow_null=True)
    verdict = serializers.CharField(read_only=True, allow_null=True)
    speedup = serializers.FloatField(read_only=True, allow_null=True)
    page = serializers.SerializerMethodField()

    class Meta:
        model = Model
        fields = (
            "id",
            "kind",
            "team",
            "business_unit",
            "name",
            "description",
            "family",
            "newest_version",
            "newest_number",
            "verdict",
            "speedup",
            "created_at",
            "updated_at",
            "page",
        )

    def get_page(self, model: Any) -> str:
        return _absolute(self, reverse("model", args=[model.pk]))


class VersionSerializer(serializers.ModelSerializer[ModelVersion]):
    model = ModelBriefSerializer(read_only=True)
    uploaded_by = serializers.SerializerMethodField()
    page = serializers.SerializerMethodField()
    file = serializers.SerializerMethodField(help_text="null once it was deleted")

    class Meta:
        model = ModelVersion
        fields = (
            "id",
            "model",
            "number",
            "filename",
            "format",
            "sha256",
            "size_bytes",
            "uploaded_by",
            "created_at",
            "deleted_at",
            "page",
            "file",
        )

    def get_uploaded_by(self, version: ModelVersion) -> str | None:
        return version.uploaded_by.name_in_api if version.uploaded_by is not None else None

    def get_page(self, version: ModelVersion) -> str:
        return _absolute(self, reverse("version", args=[version.pk]))

    def get_file(self, version: ModelVersion) -> str | None:
        return _absolute(self, reverse("api:version-file", args=[version.pk])) if version.storage_key else None


class WorkloadSerializer(serializers.ModelSerializer[Workload]):
    version = serializers.UUIDField(source="version_id", read_only=True)
    created_by = serializers.SerializerMethodField()

    class Meta:
        model = Workload
        fields = ("id", "version", "number", "source", "created_by", "created_at", "document")
        extra_kwargs = {"document": {"help_text": "optimizer.spec.Workload"}}  # noqa: RUF012

    def get_created_by(self, workload: Workload) -> str | None:
        return workload.created_by.name_in_api if workload.created_by is not None else None


class VersionDetailSerializer(VersionSerializer):
    """With what the inspection found, the run that inspects it, and the current workload."""

    inspection = serializers.JSONField(read_only=True, help_text="optimizer.result.Inspection; null until it ended")
    inspect_run = serializers.SerializerMethodField(help_text="the run whose end fills in `inspection`")
    workload = serializers.SerializerMethodField(help_text="the current revision")

    class Meta(VersionSerializer.Meta):
        fields = (*VersionSerializer.Meta.fields, "inspection", "inspect_run", "workload")  # type: ignore[assignment]

    @extend_schema_field(serializers.UUIDField(allow_null=True))
    def get_inspect_run(self, version: ModelVersion) -> str | None:
        run = inspect_run(version=version)
        return str(run.pk) if run is not None else None

    @extend_schema_field(WorkloadSerializer(allow_null=True))
    def get_workload(self, version: ModelVersion) -> Any:
        workload = current_workload(version=version)
        return WorkloadSerializer(workload).data if workload is not None else None


class UploadSerializer(serializers.ModelSerializer[Upload]):
    team = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True)
    model = serializers.UUIDField(source="model_id", read_only=True, allow_null=True)
    offset_bytes = serializers.SerializerMethodField(help_text="bytes that have arrived")
    version = serializers.UUIDField(source="version_id", read_only=True, allow_null=True)
    address = serializers.SerializerMethodField(help_text="where PATCH appends")

    class Meta:
        model = Upload
        fields = (
            "id",
            "team",
            "kind",
            "model",
            "model_name",
            "filename",
            "length_bytes",
            "offset_bytes",
            "version",
            "expires_at",
            "address",
        )

    def get_offset_bytes(self, upload: Upload) -> int | None:
        """In a list null when what had arrived of it is gone, so that one lost file does not hide the others."""
        try:
            return incoming.offset_of(upload)
        except PlatformError:
            if self.parent is None:
                raise
            return None

    def get_address(self, upload: Upload) -> str:
        return _absolute(self, reverse("api:upload-detail", args=[upload.pk]))


def _absolute(serializer: serializers.BaseSerializer[Any], address: str) -> str:
    request = serializer.context.get("request")
    return request.build_absolute_uri(address) if request is not None else address
