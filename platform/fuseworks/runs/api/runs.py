"""The runs of one's teams, and starting one."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.response import Response

from fuseworks.accounts.idempotency import KEY, answers, once
from fuseworks.accounts.permissions import Actor, actor_of
from fuseworks.core.bodies import Body
from fuseworks.core.discovery import endpoint
from fuseworks.core.lookup import get_or_404
from fuseworks.registry.models import ModelVersion, Workload
from fuseworks.runs.filters import RunFilter
from fuseworks.runs.models import CompareAs, Purpose, Run
from fuseworks.runs.selectors import run_visible, runs_visible
from fuseworks.runs.serializers import PolicyField, RunDetailSerializer, RunSerializer
from fuseworks.runs.services import run_create


class NewRunSerializer(Body):
    version = serializers.UUIDField(help_text="what is run; of a comparison the new version")
    purpose = serializers.ChoiceField(choices=Purpose.choices, default=Purpose.OPTIMIZE)
    target = serializers.CharField(
        default="cpu",
        max_length=40,
        help_text="cpu, cuda:sm_90, rocm:gfx942; explain: the GPU to predict for, which need not be there",
    )
    policy = PolicyField(required=False, help_text="what the run may spend and risk; what is left out has its default")
    workload = serializers.UUIDField(required=False, allow_null=True, help_text="default: the version's current one")
    against = serializers.UUIDField(required=False, allow_null=True, help_text="compare, diagnose: the version before")
    recipe_version = serializers.UUIDField(required=False, allow_null=True, help_text="replay: what is applied")
    max_latency_ratio = serializers.FloatField(
        required=False, allow_null=True, help_text="compare: the limit of a gate; 1.05 allows 5 % more latency"
    )
    compare_as = serializers.ChoiceField(
        choices=CompareAs.choices,
        required=False,
        allow_null=True,
        help_text="compare: measure both as `uploaded`; or `packaged` by the recipe of the latest run of `against` "
        "that left a package (refused when none did); or `auto`, the default: packaged where there is such a run, else "
        "as uploaded",
    )


@endpoint("runs/", name="runs")
class Runs(generics.GenericAPIView[Run]):
    serializer_class = RunSerializer
    filterset_class = RunFilter

    def get_queryset(self) -> QuerySet[Run]:
        if getattr(self, "swagger_fake_view", False):
            return Run.objects.none()
        return runs_visible(actor=actor_of(self.request))

    @extend_schema(operation_id="runs_list", responses=RunSerializer(many=True))
    def get(self, request: Any) -> Response:
        """Those of your teams, the newest first."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    @extend_schema(
        operation_id="runs_create", request=NewRunSerializer, parameters=[KEY], responses=answers(RunDetailSerializer)
    )
    def post(self, request: Any) -> Response:
        """Start a run. `optimize`, the default, leaves a result, and a recipe and a package where something faster was
        found; `compare` with `max_latency_ratio` is a gate, whose exit code `gates/<run>/` tells; `explain` predicts
        for a GPU that is not there, and measures nothing; `diagnose` says what holds the job of a trace back."""
        actor = actor_of(request)
        given = NewRunSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        run = once(
            request,
            actor=actor,
            make=lambda: self._started(actor, given.validated_data),
            find=lambda run_id: run_visible(actor=actor, run_id=run_id),
        )
        detail = RunDetailSerializer(run.row, context=self.get_serializer_context())
        return Response(detail.data, status=run.status, headers={"Location": detail.data["links"]["self"]})

    def _started(self, actor: Actor, asked: dict[str, Any]) -> Run:
        versions = ModelVersion.objects.visible_to(actor).select_related("model__team")
        return run_create(
            actor=actor,
            version=get_or_404(versions, what="version", pk=asked["version"]),
            purpose=asked["purpose"],
            target=asked["target"],
            policy=asked.get("policy"),
            workload=_optional(Workload.objects.visible_to(actor), "workload", asked),
            against=_optional(versions, "against", asked),
            recipe_version=_recipe_version(actor, asked),
            max_latency_ratio=asked.get("max_latency_ratio"),
            compare_as=asked.get("compare_as"),
        )


def _optional(queryset: QuerySet[Any], name: str, asked: dict[str, Any]) -> Any:
    return get_or_404(queryset, what=name, pk=asked[name]) if asked.get(name) is not None else None


def _recipe_version(actor: Any, asked: dict[str, Any]) -> Any:
    if asked.get("recipe_version") is None:
        return None
    from fuseworks.recipes.selectors import recipe_versions_visible_to  # recipes build on runs

    return get_or_404(recipe_versions_visible_to(actor), what="recipe version", pk=asked["recipe_version"])
