"""Whether runs may stand beside each other, their figures if so, and what differs if not."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts.permissions import Actor, actor_of
from fuseworks.core.discovery import endpoint
from fuseworks.results import exports, selectors
from fuseworks.results.api.run_result import HeadlineSerializer, RunFactsSerializer
from fuseworks.results.comparing import Beside, Entry, beside
from fuseworks.runs.selectors import against_visible

NOT_MEASURED = (
    "These runs were not measured together: a ratio of their speedups is derived, and no interval can be given. "
    "Start a run of purpose compare to measure two versions side by side."
)


class ComparedRunSerializer(serializers.Serializer[Any]):
    run = RunFactsSerializer()
    headline = HeadlineSerializer(allow_null=True, help_text="null when the runs are not comparable")


class DifferenceSerializer(serializers.Serializer[Any]):
    key = serializers.CharField(help_text="dotted: conditions.libraries.torch, workload.dims.batch.serve")
    values = serializers.ListField(child=serializers.CharField(), help_text="in the order of `runs`")


class DerivedSerializer(serializers.Serializer[Any]):
    base = serializers.UUIDField()
    run = serializers.UUIDField()
    ratio_of_speedups = serializers.FloatField(help_text="speedup of `run` / speedup of `base`; derived, not measured")


class ComparisonsSerializer(serializers.Serializer[Any]):
    comparable = serializers.BooleanField()
    runs = ComparedRunSerializer(many=True)
    differences = DifferenceSerializer(many=True, help_text="empty when they are comparable")
    derived = DerivedSerializer(
        many=True, help_text="empty when they are not comparable; none of a run that cannot tell"
    )
    statement = serializers.CharField()


@endpoint("comparisons/", name="comparisons")
class ComparisonsView(APIView):
    @extend_schema(
        operation_id="comparisons",
        parameters=[OpenApiParameter("runs", str, required=True, description="two or more ids, separated by commas")],
        responses={
            200: ComparisonsSerializer,
            400: OpenApiResponse(description="fewer than two runs, or the same one twice"),
            404: OpenApiResponse(description="no such run, or no result yet"),
        },
    )
    def get(self, request: Request) -> Response:
        chosen = selectors.run_ids(request.query_params.getlist("runs"))
        actor = actor_of(request)
        return Response(document(beside(selectors.runs_compared(actor=actor, run_ids=chosen)), actor))


def document(found: Beside, actor: Actor) -> dict[str, Any]:
    runs = [
        {
            "run": exports.run_facts(entry.run, against=against_visible(actor=actor, run=entry.run)),
            "headline": _headline(found, entry),
        }
        for entry in found.entries
    ]
    return {
        "comparable": found.comparable,
        "runs": runs,
        "differences": [{"key": one.key, "values": one.values} for one in found.differences],
        "derived": [
            {"base": str(one.base.pk), "run": str(one.run.pk), "ratio_of_speedups": one.ratio} for one in found.derived
        ],
        "statement": NOT_MEASURED,
    }


def _headline(found: Beside, entry: Entry) -> dict[str, Any] | None:
    """Figures that may not stand beside each other are not put there."""
    if not found.comparable:
        return None
    return exports.headline(entry.run, selectors.result_or_404(entry.run), entry.result)
