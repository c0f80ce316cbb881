"""Checks of gates: the list, and the one of a run, with the exit code that a pipeline wants."""

from __future__ import annotations

from typing import Any, ClassVar

import django_filters
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import generics, serializers

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint
from fuseworks.gates import selectors
from fuseworks.gates.models import GateCheck, Outcome
from fuseworks.gates.rules import exit_code


class GateCheckSerializer(serializers.ModelSerializer[GateCheck]):
    team: serializers.SlugRelatedField[Any] = serializers.SlugRelatedField(
        source="run.team", slug_field="slug", read_only=True
    )
    model = serializers.CharField(source="run.version.model.name", read_only=True)
    version = serializers.UUIDField(source="run.version_id", read_only=True)
    version_number = serializers.IntegerField(source="run.version.number", read_only=True)
    against = serializers.SerializerMethodField(help_text="null too when it is of a team that the reader is not in")
    against_number = serializers.SerializerMethodField()
    run_status = serializers.CharField(source="run.status", read_only=True)
    compare_as = serializers.CharField(source="run.compare_as", read_only=True, help_text="as asked, auto for one")
    compared_as = serializers.CharField(
        source="run.compared_as", read_only=True, help_text="uploaded, or packaged by the recipe of `recipe_run`"
    )
    recipe_run = serializers.UUIDField(source="run.recipe_run_id", read_only=True, allow_null=True)
    reason = serializers.SerializerMethodField(
        help_text="why there is no latency_ratio, or why it lets nothing pass; else empty"
    )
    exit_code = serializers.SerializerMethodField()

    class Meta:
        model = GateCheck
        fields = (
            "run",
            "team",
            "model",
            "version",
            "version_number",
            "against",
            "against_number",
            "run_status",
            "compare_as",
            "compared_as",
            "recipe_run",
            "max_latency_ratio",
            "outcome",
            "latency_ratio",
            "latency_ratio_low",
            "latency_ratio_high",
            "reason",
            "exit_code",
            "created_at",
        )
        read_only_fields = fields
        extra_kwargs: ClassVar[dict[str, Any]] = {
            "latency_ratio": {"help_text": "the version's time / the time of `against`: below 1 it is faster"}
        }

    @extend_schema_field(serializers.UUIDField(allow_null=True))
    def get_against(self, check: Any) -> str | None:
        return str(check.run.against_id) if check.sees_against else None

    @extend_schema_field(serializers.IntegerField(allow_null=True))
    def get_against_number(self, check: Any) -> int | None:
        return int(check.run.against.number) if check.sees_against else None

    def get_reason(self, check: GateCheck) -> str:
        return str(check.run.problem["message"]) if check.run.problem else check.reason

    @extend_schema_field(serializers.IntegerField(allow_null=True, help_text="null while the run goes on"))
    def get_exit_code(self, check: GateCheck) -> int | None:
        """0 pass, 1 too slow, 2 cannot tell, 3 infrastructure, 4 the model's fault."""
        return exit_code(check)


class GateCheckFilter(django_filters.FilterSet):
    model = django_filters.UUIDFilter(field_name="run__version__model")
    version = django_filters.UUIDFilter(field_name="run__version")
    team = django_filters.CharFilter(field_name="run__team__slug")
    outcome = django_filters.ChoiceFilter(choices=Outcome.choices)

    class Meta:
        model = GateCheck
        fields: ClassVar[list[str]] = []


@endpoint("gates/", name="gates")
class GatesView(generics.ListAPIView[GateCheck]):
    serializer_class = GateCheckSerializer
    filterset_class = GateCheckFilter

    def get_queryset(self) -> QuerySet[GateCheck]:
        if getattr(self, "swagger_fake_view", False):
            return GateCheck.objects.none()
        return selectors.checks(actor=actor_of(self.request))


@endpoint("gates/<uuid:run_id>/", name="gate-detail")
class GateView(generics.RetrieveAPIView[GateCheck]):
    """Of the run with this id."""

    serializer_class = GateCheckSerializer

    @extend_schema(operation_id="gates_of_run")
    def get(self, *args: Any, **kwargs: Any) -> Any:
        return super().get(*args, **kwargs)

    def get_object(self) -> GateCheck:
        return selectors.check_of_run(actor=actor_of(self.request), run_id=self.kwargs["run_id"])
