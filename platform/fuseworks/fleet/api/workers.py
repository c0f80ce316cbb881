"""The workers of the site and the queue of each target. What a worker works on is told to who may see that run."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint
from fuseworks.fleet import selectors
from fuseworks.fleet.leadership import is_led


class WorkerSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(source="worker.name")
    host = serializers.CharField(source="worker.host")
    target = serializers.CharField(source="worker.target")
    state = serializers.ChoiceField(choices=["idle", "busy", "silent", "stopped"])
    run = serializers.UUIDField(source="run.pk", default=None, allow_null=True, help_text="null unless you may see it")
    noise_floor = serializers.FloatField(source="worker.noise_floor", allow_null=True, help_text="a share: 0.02 is 2 %")
    noise_floor_conditions = serializers.DictField(source="worker.noise_floor_conditions")
    last_seen_at = serializers.DateTimeField(source="worker.last_seen_at")
    started_at = serializers.DateTimeField(source="worker.started_at")
    manifest = serializers.DictField(
        source="manifest_in_short", help_text="passes, kernels in short (`kernels/` has them whole), backends, devices"
    )


class TargetQueueSerializer(serializers.Serializer[Any]):
    target = serializers.CharField()
    waiting = serializers.IntegerField()
    running = serializers.IntegerField()
    workers = serializers.IntegerField()
    free = serializers.IntegerField()
    in_vain = serializers.IntegerField(help_text="waiting runs whose messages no worker took up, three times or more")


class FleetSerializer(serializers.Serializer[Any]):
    dispatcher = serializers.BooleanField(help_text="whether one is at work; without, runs wait")
    workers = WorkerSerializer(many=True)
    queues = TargetQueueSerializer(many=True)


@endpoint("workers/", name="workers")
class Workers(APIView):
    @extend_schema(operation_id="workers_list", responses=FleetSerializer)
    def get(self, request: Any) -> Response:
        shown = {
            "dispatcher": is_led(),
            "workers": selectors.fleet(actor=actor_of(request)),
            "queues": selectors.queues(),
        }
        return Response(FleetSerializer(shown).data)
