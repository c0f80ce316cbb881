"""What reads the registry. Everything begins with what the actor may see."""

from __future__ import annotations

import uuid
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery

from fuseworks.accounts.models import Team
from fuseworks.accounts.permissions import READ, UPLOAD, Actor, teams_where
from fuseworks.core.lookup import get_or_404
from fuseworks.registry.models import Format, Kind, Model, ModelVersion, Upload, Workload
from fuseworks.results.models import RunResult
from fuseworks.runs.models import RESULT_BODY, Purpose, Run, Status

JUDGING = (Purpose.OPTIMIZE, Purpose.REPLAY)


def team_of(*, actor: Actor, slug: str) -> Team:
    """Raises PlatformError (`core:usage:not-found`)."""
    return get_or_404(teams_where(actor, READ), what="team", slug=slug)


def teams_to_upload(*, actor: Actor) -> QuerySet[Team]:
    return teams_where(actor, UPLOAD).select_related("business_unit").order_by("name")


def models_list(*, actor: Actor, kind: str | None = Kind.MODEL) -> QuerySet[Any]:
    """`kind` None: jobs, too. With `newest_number`, `newest_id`, `newest_at` and the last judged run's `verdict`,
    `speedup` and `run_id`."""
    newest = ModelVersion.objects.filter(model=OuterRef("pk")).order_by("-number")
    judged = (
        RunResult.objects.filter(run__version__model=OuterRef("pk"), run__purpose__in=JUDGING)
        .exclude(verdict="")
        .order_by("-created_at")
    )
    seen = Model.objects.visible_to(actor)
    return (
        (seen.filter(kind=kind) if kind is not None else seen)
        .select_related("team__business_unit")
        .annotate(
            newest_id=Subquery(newest.values("pk")[:1]),
            newest_number=Subquery(newest.values("number")[:1]),
            newest_format=Subquery(newest.values("format")[:1]),
            newest_at=Subquery(newest.values("created_at")[:1]),
            verdict=Subquery(judged.values("verdict")[:1]),
            speedup=Subquery(judged.values("speedup")[:1]),
            run_id=Subquery(judged.values("run_id")[:1]),
        )
        .order_by("team__name", "name")
    )


def search(models: QuerySet[Any], text: str) -> QuerySet[Any]:
    """Each word is somewhere in the name, the description or the name of the team."""
    for word in text.split():
        models = models.filter(Q(name__icontains=word) | Q(description__icontains=word) | Q(team__name__icontains=word))
    return models


def model_get(*, actor: Actor, model_id: uuid.UUID) -> Model:
    models = Model.objects.visible_to(actor).select_related("team__business_unit")
    return get_or_404(models, what="model", pk=model_id)


def versions_of(*, model: Model) -> QuerySet[Any]:
    """Newest first, with the `verdict` and `speedup` of each one's last judged run."""
    judged = (
        RunResult.objects.filter(run__version=OuterRef("pk"), run__purpose__in=JUDGING)
        .exclude(verdict="")
        .order_by("-created_at")
    )
    return (
        model.versions.select_related("uploaded_by", "model__team")
        .annotate(
            verdict=Subquery(judged.values("verdict")[:1]),
            speedup=Subquery(judged.values("speedup")[:1]),
            run_id=Subquery(judged.values("run_id")[:1]),
        )
        .order_by("-number")
    )


def version_get(*, actor: Actor, version_id: uuid.UUID) -> ModelVersion:
    versions = ModelVersion.objects.visible_to(actor).select_related(
        "model__team__business_unit", "uploaded_by", "deleted_by"
    )
    return get_or_404(versions, what="version", pk=version_id)


def comparable_versions(*, version: ModelVersion) -> QuerySet[ModelVersion]:
    """Those of the same team and kind whose file is there: of the same model first, the newest first."""
    same_model = Model.objects.filter(pk=OuterRef("model_id")).filter(pk=version.model_id)
    return (
        ModelVersion.objects.filter(model__team=version.model.team, model__kind=version.model.kind, deleted_at=None)
        .exclude(pk=version.pk)
        .select_related("model")
        .defer("inspection")
        .annotate(is_same_model=Exists(same_model))
        .order_by("-is_same_model", "model__name", "-number")
    )


def runs_of(*, actor: Actor, model: Model) -> QuerySet[Run]:
    runs = Run.objects.visible_to(actor).filter(version__model=model)
    return runs.select_related("version", "created_by", "result").defer(*RESULT_BODY).order_by("-created_at")


def inspect_run(*, version: ModelVersion) -> Run | None:
    """The last one: an inspection may have been tried again."""
    return version.runs.filter(purpose=Purpose.INSPECT).order_by("-created_at").first()


def runnable(versions: QuerySet[ModelVersion]) -> QuerySet[ModelVersion]:
    """Without those that `run_create` would refuse: traces, and those whose last inspection failed by the model's fault
    and that have no workload."""
    inspections = Run.objects.filter(version=OuterRef("pk"), purpose=Purpose.INSPECT).order_by("-created_at")
    workloads = Workload.objects.filter(version=OuterRef("pk"))
    told = versions.exclude(format=Format.TRACE).annotate(inspected=Subquery(inspections.values("status")[:1]))
    return told.filter(Q(inspected=None) | ~Q(inspected=Status.FAILED) | Exists(workloads))


def current_workload(*, version: ModelVersion) -> Workload | None:
    return version.workloads.order_by("-number").first()


def workloads_of(*, version: ModelVersion) -> QuerySet[Workload]:
    return version.workloads.select_related("created_by").order_by("-number")


def upload_get(*, actor: Actor, upload_id: uuid.UUID) -> Upload:
    uploads = Upload.objects.visible_to(actor).select_related("team", "model", "version")
    return get_or_404(uploads, what="upload", pk=upload_id)


def open_uploads(*, actor: Actor) -> QuerySet[Upload]:
    """The actor's own that are not complete."""
    uploads = Upload.objects.visible_to(actor).filter(created_by=actor.user, version=None)
    return uploads.select_related("team", "model").order_by("-created_at")
