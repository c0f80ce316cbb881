"""The result of a run: headline figures, and the document as the optimizer wrote it; `?format=csv`: its candidates
or, with `table=operations`, its operations before and after."""

from __future__ import annotations

import json
import uuid
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint
from fuseworks.results import exports, operation_exports, selectors
from fuseworks.results.reading.document import parse
from fuseworks.results.reading.operations import Found, NoAfter
from fuseworks.runs.selectors import against_visible


class CsvRenderer(BaseRenderer):
    media_type = "text/csv"
    format = "csv"

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        # an error is a document even where a table was asked for
        return (data if isinstance(data, str) else json.dumps(data, default=str)).encode()


class IntervalField(serializers.Serializer[Any]):
    low = serializers.FloatField()
    high = serializers.FloatField()
    confidence = serializers.FloatField()


class HeadlineSerializer(serializers.Serializer[Any]):
    """Every figure with its interval. Of a `compare` run, speedup is the time of `against` / the version's time."""

    verdict = serializers.ChoiceField(["faster", "slower", "same", "cannot_tell"], allow_null=True)
    speedup = serializers.FloatField(allow_null=True, help_text="same runtime settings on both sides")
    speedup_ci = IntervalField(allow_null=True)
    speedup_as_deployed = serializers.FloatField(allow_null=True, help_text="baseline in its default settings")
    speedup_as_deployed_ci = IntervalField(allow_null=True)
    verdict_as_deployed = serializers.CharField(allow_null=True)
    baseline_ms = serializers.FloatField(allow_null=True, help_text="median of single calls")
    best_ms = serializers.FloatField(allow_null=True, help_text="median of single calls")
    winner = serializers.CharField(allow_null=True)
    best_peer = serializers.DictField(allow_null=True)
    speedup_over_best_peer = serializers.FloatField(allow_null=True)
    verdict_over_best_peer = serializers.CharField(allow_null=True)
    latency_ratio = serializers.FloatField(allow_null=True, help_text="compare: version's time / time of `against`")
    latency_ratio_ci = IntervalField(allow_null=True)
    noise_floor = serializers.FloatField(allow_null=True)
    pairs = serializers.IntegerField(allow_null=True)
    looks = serializers.IntegerField(allow_null=True)
    fingerprint = serializers.CharField(allow_null=True)
    recipe_digest = serializers.CharField(allow_null=True)
    summary = serializers.CharField()


class RunFactsSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    team = serializers.SlugField()
    model = serializers.UUIDField()
    model_name = serializers.CharField()
    version = serializers.UUIDField()
    version_number = serializers.IntegerField()
    purpose = serializers.CharField()
    status = serializers.CharField()
    target = serializers.CharField()
    ended_at = serializers.DateTimeField(allow_null=True)
    against = serializers.UUIDField(allow_null=True, help_text="null too when it is of a team that you are not in")
    against_number = serializers.IntegerField(allow_null=True)
    compared_as = serializers.CharField(help_text="compare: uploaded, or packaged by the document's recipe; else empty")


class OperationRowSerializer(serializers.Serializer[Any]):
    """What was the same work before and after: it holds a node of the graph in common."""

    found_in = serializers.ChoiceField([one.value for one in Found])
    before = serializers.ListField(child=serializers.IntegerField(), help_text="positions in profile.operations")
    after = serializers.ListField(child=serializers.IntegerField(), help_text="positions in profile_after.operations")


class OperationTableSerializer(serializers.Serializer[Any]):
    """The document's two profiles side by side. Their times are of processes of their own, under two profilers: they
    are neither the judged ones nor a common measure."""

    rows = OperationRowSerializer(many=True)
    no_after = serializers.ChoiceField(
        [one.value for one in NoAfter],
        allow_null=True,
        help_text="why the winner has no profile; not_profiled: the document's not_profiled_because says it",
    )


class PredictedSumSerializer(serializers.Serializer[Any]):
    predicted_ms = serializers.ListField(
        child=serializers.FloatField(), min_length=2, max_length=2, help_text="of one call: lower end, upper end"
    )
    kernels_launched = serializers.IntegerField()
    bytes_moved = serializers.IntegerField()


class PredictedSerializer(serializers.Serializer[Any]):
    """Of a GPU that is not there: nothing of it was run or measured. Kernels, library calls and the formula are in
    `document.predicted`."""

    target = serializers.CharField()
    device = serializers.CharField(help_text="the one that stands for the target")
    sizes = serializers.DictField(child=serializers.IntegerField())
    applied = serializers.ListField(child=serializers.CharField(), help_text="our passes that applied")
    before = PredictedSumSerializer(help_text="as uploaded")
    after = PredictedSumSerializer(help_text="after our rewrites; the same where none applied")
    difference = PredictedSumSerializer(help_text="after less before: below zero is less")


class RunResultSerializer(serializers.Serializer[Any]):
    run = RunFactsSerializer()
    headline = HeadlineSerializer()
    operations = OperationTableSerializer()
    predicted = PredictedSerializer(allow_null=True)
    document = serializers.DictField(help_text="optimizer.result.Result; `fuseworks schema result` prints its schema")


@endpoint("runs/<uuid:run_id>/result/", name="run-result")
class RunResultView(APIView):
    renderer_classes = (JSONRenderer, CsvRenderer)

    @extend_schema(
        operation_id="run_result",
        parameters=[
            OpenApiParameter("format", str, enum=["json", "csv"], description="csv: one table of it"),
            OpenApiParameter(
                "table",
                str,
                enum=["candidates", "operations"],
                default="candidates",
                description="of a csv: one row a candidate, or one an operation, before and after",
            ),
        ],
        responses={
            (200, "application/json"): RunResultSerializer,
            (200, "text/csv"): OpenApiTypes.STR,
            404: OpenApiResponse(description="no such run, or no result yet"),
        },
    )
    def get(self, request: Request, run_id: uuid.UUID) -> Response:
        """Before and after: the headline's figures, and the whole document. 404 until there is one, and for a run that
        left none."""
        actor = actor_of(request)
        run = selectors.run_visible(actor=actor, run_id=run_id)
        stored = selectors.result_or_404(run)
        result = parse(stored.document)
        if isinstance(request.accepted_renderer, CsvRenderer):  # type: ignore[attr-defined]
            table = operation_exports if request.query_params.get("table") == "operations" else exports
            return Response(table.as_csv(run, result))
        return Response(exports.as_json(run, stored, result, against=against_visible(actor=actor, run=run)))
