"""How runs look in the API: a row of a list, and the whole of one."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.openapi import schema_of
from fuseworks.fleet.selectors import queue_place
from fuseworks.runs import selectors
from fuseworks.runs.models import Artifact, Purpose, Run, RunEvent, Status
from optimizer.result import Stage, Verdict
from optimizer.spec import Policy


@extend_schema_field(schema_of(Policy))
class PolicyField(serializers.DictField):
    """Checked by `run_create`, which resolves it."""


class ProblemSerializer(serializers.Serializer[Any]):
    """Why a run did not succeed."""

    id = serializers.CharField(help_text="stable: stage, guilty side (user, ours, usage), what")
    side = serializers.CharField()
    message = serializers.CharField()
    place = serializers.CharField(allow_null=True, help_text="model.py:41, a node, an input's name")
    remedy = serializers.CharField()


class QueueSerializer(serializers.Serializer[Any]):
    """Where a queued run stands. `position` 0 is the next one to be sent."""

    position = serializers.IntegerField()
    workers = serializers.IntegerField(help_text="that serve the run's target and are alive")
    waits_for = serializers.ChoiceField(choices=["worker", "turn", "claim", "link"])
    reason = serializers.CharField()


class GateSerializer(serializers.Serializer[Any]):
    max_latency_ratio = serializers.FloatField()
    outcome = serializers.CharField(help_text="pending, pass, fail, cannot_tell, no_result")
    latency_ratio = serializers.FloatField(allow_null=True)
    latency_ratio_low = serializers.FloatField(allow_null=True)
    latency_ratio_high = serializers.FloatField(allow_null=True)


class LinksSerializer(serializers.Serializer[Any]):
    """Absolute addresses."""

    self = serializers.URLField()
    page = serializers.URLField()
    events = serializers.URLField()
    artifacts = serializers.URLField()
    result = serializers.URLField()
    cancel = serializers.URLField()
    retry = serializers.URLField()


class RunSerializer(serializers.ModelSerializer[Run]):
    team = serializers.CharField(source="team.slug")
    model = serializers.UUIDField(source="version.model_id")
    model_name = serializers.CharField(source="version.model.name")
    version_number = serializers.IntegerField(source="version.number")
    purpose = serializers.ChoiceField(choices=Purpose.choices)
    status = serializers.ChoiceField(choices=Status.choices)
    stage = serializers.ChoiceField(choices=[(s.value, s.value) for s in Stage], allow_blank=True)
    created_by = serializers.SerializerMethodField()
    summary = serializers.SerializerMethodField()
    verdict = serializers.SerializerMethodField()
    speedup = serializers.SerializerMethodField(
        help_text="baseline time / candidate time, equal settings on both sides"
    )
    page = serializers.SerializerMethodField(help_text="the address of its page")

    class Meta:
        model = Run
        fields: tuple[str, ...] = (
            "id",
            "page",
            "team",
            "model",
            "model_name",
            "version",
            "version_number",
            "purpose",
            "target",
            "status",
            "stage",
            "candidate",
            "verdict",
            "speedup",
            "summary",
            "created_by",
            "created_at",
            "started_at",
            "ended_at",
        )
        read_only_fields = fields

    @extend_schema_field({"type": ["string", "null"]})
    def get_created_by(self, run: Run) -> str | None:
        return run.created_by.name_in_api if run.created_by is not None else None

    def get_summary(self, run: Run) -> str:
        by = run.was_cancelled_by
        return run.summary or (f"cancelled by {by.name_in_api}" if by is not None else "")

    @extend_schema_field({"type": ["string", "null"], "enum": [*[v.value for v in Verdict], None]})
    def get_verdict(self, run: Run) -> str | None:
        result = getattr(run, "result", None)
        return (result.verdict or None) if result is not None else None

    @extend_schema_field({"type": ["number", "null"]})
    def get_speedup(self, run: Run) -> float | None:
        result = getattr(run, "result", None)
        return result.speedup if result is not None else None

    def get_page(self, run: Run) -> str:
        return self._address("run", run)

    def _address(self, name: str, run: Run) -> str:
        return str(self.context["request"].build_absolute_uri(reverse(name, args=[run.pk])))


class RunDetailSerializer(RunSerializer):
    against = serializers.SerializerMethodField(help_text="null too when it is of a team that the reader is not in")
    recipe_version = serializers.SerializerMethodField(help_text="null too when the reader may no longer see it")
    compare_as = serializers.CharField(help_text="compare: auto, uploaded or packaged, as asked; else empty")
    compared_as = serializers.CharField(
        help_text="compare: uploaded (as their frameworks run them) or packaged (by the recipe of `recipe_run`)"
    )
    policy = PolicyField(help_text="resolved when the run was started")
    progress = serializers.DictField(help_text="message, done, total, at_s, budget_s of the last event; best so far")
    queue = serializers.SerializerMethodField(help_text="null unless the run is queued")
    problem = ProblemSerializer(allow_null=True)
    gate = serializers.SerializerMethodField(help_text="null for a run without max_latency_ratio")
    cancel_requested = serializers.SerializerMethodField()
    elapsed_s = serializers.SerializerMethodField(help_text="of work; time in the queue does not count")
    links = serializers.SerializerMethodField()

    class Meta(RunSerializer.Meta):
        fields = (
            *RunSerializer.Meta.fields,
            "workload",
            "against",
            "compare_as",
            "compared_as",
            "recipe_run",
            "recipe_version",
            "retry_of",
            "policy",
            "attempt",
            "max_attempts",
            "cancel_requested",
            "elapsed_s",
            "time_limit_s",
            "progress",
            "queue",
            "problem",
            "gate",
            "links",
        )
        read_only_fields = fields

    @extend_schema_field(serializers.UUIDField(allow_null=True))
    def get_against(self, run: Run) -> str | None:
        against = selectors.against_visible(actor=actor_of(self.context["request"]), run=run)
        return str(against.pk) if against is not None else None

    @extend_schema_field(serializers.UUIDField(allow_null=True))
    def get_recipe_version(self, run: Run) -> str | None:
        from fuseworks.recipes.selectors import applied_visible  # recipes build on runs

        applied = applied_visible(actor=actor_of(self.context["request"]), run=run)
        return str(applied.pk) if applied is not None else None

    @extend_schema_field(QueueSerializer(allow_null=True))
    def get_queue(self, run: Run) -> dict[str, Any] | None:
        place = queue_place(run=run)
        return QueueSerializer(place).data if place is not None else None

    @extend_schema_field(GateSerializer(allow_null=True))
    def get_gate(self, run: Run) -> dict[str, Any] | None:
        check = getattr(run, "gate_check", None)
        return GateSerializer(check).data if check is not None else None

    def get_cancel_requested(self, run: Run) -> bool:
        return run.cancel_requested_at is not None

    def get_elapsed_s(self, run: Run) -> float:
        return round(selectors.elapsed_s(run=run, attempt=selectors.current_attempt(run=run)), 3)

    @extend_schema_field(LinksSerializer)
    def get_links(self, run: Run) -> dict[str, str]:
        own = self._address("api:run-detail", run)
        parts = ("events", "artifacts", "result", "cancel", "retry")
        return {"self": own, "page": self._address("run", run), **{part: f"{own}{part}/" for part in parts}}


class RunEventSerializer(serializers.ModelSerializer[RunEvent]):
    position = serializers.SerializerMethodField(help_text="among all events of the run; what `after` takes")

    class Meta:
        model = RunEvent
        fields = (
            "position",
            "attempt",
            "number",
            "kind",
            "at_s",
            "message",
            "candidate",
            "done",
            "total",
            "data",
            "received_at",
        )
        read_only_fields = fields

    def get_position(self, event: RunEvent) -> int:
        return selectors.position(event)


class ArtifactSerializer(serializers.ModelSerializer[Artifact]):
    address = serializers.SerializerMethodField(help_text="where its bytes are")

    class Meta:
        model = Artifact
        fields = ("name", "size_bytes", "sha256", "created_at", "address")
        read_only_fields = fields

    def get_address(self, artifact: Artifact) -> str:
        own = reverse("api:run-artifact", args=[artifact.run_id, artifact.name])
        return str(self.context["request"].build_absolute_uri(own))
