"""What the dashboard shows: runs at work, the last results, models and recipes, all as far as the reader may see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Case, Count, F, Max, Q, QuerySet, Value, When

from fuseworks.accounts.permissions import READ, UPLOAD, Actor, teams_where
from fuseworks.recipes.models import RecipeVersion
from fuseworks.recipes.selectors import CatalogQuery, catalog
from fuseworks.registry.models import Kind, Model
from fuseworks.runs.models import RESULT_BODY, TERMINAL, Purpose, Run, Status

SHOWN_ACTIVE = 10
SHOWN_FINISHED = 8
SHOWN_MODELS = 6
SHOWN_RECIPES = 4
_RUN_RELATED = ("version__model", "team", "created_by", "result")


@dataclass(frozen=True)
class Work:
    """`active_count` counts those beyond the list too."""

    active: list[Run]
    active_count: int
    finished: list[Run]


@dataclass(frozen=True)
class Dashboard:
    work: Work
    models: list[Model]
    recipes: list[RecipeVersion]
    has_team: bool
    may_upload: bool

    @property
    def is_new(self) -> bool:
        """Nothing was uploaded yet in the reader's teams."""
        return not self.models and not self.work.active and not self.work.finished


def work(*, actor: Actor) -> Work:
    """Running runs before queued ones, each oldest first; then what ended last. Inspections count while they run and
    when they fail: one that succeeded is no result."""
    runs = Run.objects.visible_to(actor).select_related(*_RUN_RELATED).defer(*RESULT_BODY)
    active = runs.filter(status__in=[Status.RUNNING, Status.QUEUED])
    running_first = Case(When(status=Status.RUNNING, then=Value(0)), default=Value(1))
    finished = runs.filter(status__in=TERMINAL).exclude(purpose=Purpose.INSPECT, status=Status.SUCCEEDED)
    return Work(
        active=list(active.order_by(running_first, "created_at")[:SHOWN_ACTIVE]),
        active_count=active.count(),
        finished=list(finished.order_by(F("ended_at").desc(nulls_last=True))[:SHOWN_FINISHED]),
    )


def models_by_last_upload(*, actor: Actor) -> QuerySet[Any]:
    """Each with `versions_count` and `last_upload_at`, of versions that were not deleted."""
    kept = Q(versions__deleted_at=None)
    return (
        Model.objects.visible_to(actor)
        .filter(kind=Kind.MODEL)
        .select_related("team")
        .annotate(
            versions_count=Count("versions", filter=kept), last_upload_at=Max("versions__created_at", filter=kept)
        )
        .order_by(F("last_upload_at").desc(nulls_last=True), "name")
    )


def dashboard(*, actor: Actor) -> Dashboard:
    return Dashboard(
        work=work(actor=actor),
        models=list(models_by_last_upload(actor=actor)[:SHOWN_MODELS]),
        recipes=list(catalog(actor=actor, query=CatalogQuery(sort="gain"))[:SHOWN_RECIPES]),
        has_team=teams_where(actor, READ).exists(),
        may_upload=teams_where(actor, UPLOAD).exists(),
    )
