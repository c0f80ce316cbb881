"""`predicted-gains/`: predicted beside realised gains, a row a finding; and how each rule and remedy did."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint
from fuseworks.results.gains import MOST_READ, GainQuery, gains_visible
from fuseworks.results.models import CheckedGain
from fuseworks.results.reading import gains

ASKED = [
    OpenApiParameter("rule", str, description="of this rule alone"),
    OpenApiParameter("remedy", str, description="of this remedy alone, such as `pass merge_embedding_tables`"),
    OpenApiParameter("target", str, description="of runs for this target alone"),
]


class PredictedGainSerializer(serializers.ModelSerializer[CheckedGain]):
    run = serializers.UUIDField(source="run_id")
    covered = serializers.SerializerMethodField(help_text="whether it came true; null: not measured")

    class Meta:
        model = CheckedGain
        fields = (
            "run",
            "rule",
            "remedy",
            "target",
            "predicted_low",
            "predicted_high",
            "confidence",
            "uncorrected_low",
            "uncorrected_high",
            "model",
            "realised",
            "realised_low",
            "realised_high",
            "evidence",
            "measured_on",
            "reason",
            "covered",
            "created_at",
        )

    def get_covered(self, row: CheckedGain) -> bool | None:
        return gains.covers(row) if row.realised is not None else None


class TrackSerializer(serializers.Serializer[Any]):
    """How the predictions of one rule and remedy did."""

    rule = serializers.CharField(allow_blank=True)
    remedy = serializers.CharField(allow_blank=True)
    predictions = serializers.IntegerField()
    measured = serializers.IntegerField()
    judged = serializers.IntegerField(help_text="of those measured: by judgement or ablation, over fresh processes")
    coverage = serializers.FloatField(allow_null=True, help_text="share of the measured that the interval held")
    bias = serializers.FloatField(allow_null=True, help_text="0.1: ten per cent too much was predicted, in mean")
    predicted = serializers.FloatField(allow_null=True, help_text="geometric mean of the intervals' middles")
    realised = serializers.FloatField(allow_null=True, help_text="geometric mean")


class TracksSerializer(serializers.Serializer[Any]):
    all = TrackSerializer()
    by_remedy = TrackSerializer(many=True)


@endpoint("predicted-gains/", name="predicted-gains")
class PredictedGains(generics.GenericAPIView[CheckedGain]):
    serializer_class = PredictedGainSerializer

    def get_queryset(self) -> QuerySet[CheckedGain]:
        if getattr(self, "swagger_fake_view", False):
            return CheckedGain.objects.none()
        return gains_visible(actor=actor_of(self.request), query=_asked(self.request))

    @extend_schema(operation_id="predicted_gains_list", parameters=ASKED, responses=PredictedGainSerializer(many=True))
    def get(self, request: Any) -> Response:
        """Of your teams' runs, the newest first."""
        page = self.paginate_queryset(self.get_queryset())
        return self.get_paginated_response(self.get_serializer(page, many=True).data)


@endpoint("predicted-gains/tracks/", name="predicted-gain-tracks")
class PredictedGainTracks(APIView):
    @extend_schema(operation_id="predicted_gains_tracks", parameters=ASKED, responses=TracksSerializer)
    def get(self, request: Request) -> Response:
        """Over your teams' newest 2,000 predictions: coverage of the intervals and bias, by rule and remedy."""
        rows = list(gains_visible(actor=actor_of(request), query=_asked(request))[:MOST_READ])
        return Response(TracksSerializer({"all": gains.track(rows), "by_remedy": gains.tracks(rows)}).data)


def _asked(request: Request) -> GainQuery:
    return GainQuery(**{name: request.query_params.get(name, "")[:300] for name in ("rule", "remedy", "target")})
