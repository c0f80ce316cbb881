"""`uploads/`: begins a resumable upload. Its bytes go to `uploads/<uuid>/`. Not for a file in one request
(`upload_file`)."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.response import Response

from fuseworks.accounts.idempotency import KEY, answers, once
from fuseworks.accounts.permissions import actor_of
from fuseworks.core.bodies import Body
from fuseworks.core.discovery import endpoint
from fuseworks.registry import selectors
from fuseworks.registry.api.serializers import UploadSerializer
from fuseworks.registry.models import Kind, Upload
from fuseworks.registry.services import upload_begin


class NewUploadSerializer(Body):
    """`model`, or `team` and `model_name`: a model of that name is made when the team has none. With the kind `job` it
    is a job, and the file a profiler trace of it: .json, .json.gz, or a .zip of many ranks."""

    team = serializers.SlugField(required=False, help_text="slug of the team; may be left out with `model`")
    model = serializers.UUIDField(required=False)
    model_name = serializers.CharField(max_length=80, required=False)
    kind = serializers.ChoiceField(choices=Kind.choices, default=Kind.MODEL, help_text="with `model` its own holds")
    filename = serializers.CharField(max_length=1000)
    length_bytes = serializers.IntegerField(min_value=0)
    sha256 = serializers.CharField(required=False, allow_blank=True, default="", help_text="refused when it differs")

    def validate(self, given: dict[str, Any]) -> dict[str, Any]:
        if "model" not in given and not ("team" in given and "model_name" in given):
            raise serializers.ValidationError({"model": "Give model, or team and model_name."})
        return given


@endpoint("uploads/", name="upload-list")
class Uploads(generics.ListAPIView[Upload]):
    """Your own uploads that are not complete."""

    serializer_class = UploadSerializer
    filter_backends = ()
    queryset = Upload.objects.none()  # for the schema

    def get_queryset(self) -> Any:
        return selectors.open_uploads(actor=actor_of(self.request))

    @extend_schema(
        request=NewUploadSerializer,
        parameters=[KEY],
        responses=answers(UploadSerializer),
    )
    def post(self, request: Any) -> Response:
        """Begin an upload. PATCH its bytes to the answer's `address` (the header Location too), in pieces of any
        size."""
        given = NewUploadSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        actor, asked = actor_of(request), given.validated_data
        model = selectors.model_get(actor=actor, model_id=asked["model"]) if "model" in asked else None
        team = selectors.team_of(actor=actor, slug=asked["team"]) if "team" in asked else None
        if team is None:
            assert model is not None  # validated
            team = model.team
        upload = once(
            request,
            actor=actor,
            make=lambda: upload_begin(
                actor=actor,
                team=team,
                filename=asked["filename"],
                length_bytes=asked["length_bytes"],
                model=model,
                model_name=asked.get("model_name", ""),
                kind=asked["kind"],
                expected_sha256=asked["sha256"],
            ),
            find=lambda upload_id: selectors.upload_get(actor=actor, upload_id=upload_id),
        )
        shown = UploadSerializer(upload.row, context={"request": request}).data
        return Response(shown, status=upload.status, headers={"Location": shown["address"]})
