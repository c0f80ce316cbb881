"""The events of a run, in order; with `wait` the answer comes as soon as there is a new one."""

from __future__ import annotations

import uuid
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts.authentication import BearerAuthentication
from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint
from fuseworks.runs import selectors
from fuseworks.runs.serializers import RunEventSerializer

MAX_WAIT_S = 30


class EventsQuery(serializers.Serializer[Any]):
    after = serializers.IntegerField(default=0, min_value=0)
    wait = serializers.IntegerField(default=0, min_value=0, max_value=MAX_WAIT_S)


class RunEventsSerializer(serializers.Serializer[Any]):
    status = serializers.CharField(help_text="of the run; read before the events")
    next = serializers.IntegerField(help_text="ask for `after` this")
    more = serializers.BooleanField(help_text="whether there are more at this moment")
    events = RunEventSerializer(many=True)


@endpoint("runs/<uuid:run_id>/events/", name="run-events")
class RunEvents(APIView):
    @extend_schema(
        operation_id="runs_events",
        parameters=[
            OpenApiParameter("after", int, description="the `next` of the answer before; 0 begins"),
            OpenApiParameter("wait", int, description=f"seconds to wait for a new event, at most {MAX_WAIT_S}"),
        ],
        responses=RunEventsSerializer,
    )
    def get(self, request: Any, run_id: uuid.UUID) -> Response:
        """The events of a run, in order. Follow it by asking for `after` the `next` of the answer before, with `wait`,
        until `more` is false and `status` is one of succeeded, failed, errored, cancelled, timed_out."""
        run = selectors.run_visible(actor=actor_of(request), run_id=run_id)
        query = EventsQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        asked = query.validated_data
        found = selectors.events_awaited(run=run, after=asked["after"], wait_s=asked["wait"])
        if asked["wait"]:  # whoever was removed, or whose token ended, while he waited is told nothing more
            BearerAuthentication().authenticate(request)
            selectors.run_visible(actor=actor_of(request), run_id=run_id)
        return Response(
            {
                "status": run.status,
                "next": found.next,
                "more": found.more,
                "events": RunEventSerializer(found.events, many=True).data,
            }
        )
