"""Apply a recipe to a model of one's own: choose the version, start a replay, watch it."""

from __future__ import annotations

import contextlib
import uuid

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from fuseworks.accounts.models import Team
from fuseworks.accounts.permissions import RUN, Actor, actor_of, teams_where
from fuseworks.accounts.telling import HERE
from fuseworks.core.discovery import page
from fuseworks.core.errors import PlatformError
from fuseworks.core.lookup import get_or_404
from fuseworks.core.numbers import whole_number
from fuseworks.recipes import selectors
from fuseworks.recipes.models import RecipeVersion
from fuseworks.registry.models import ModelVersion
from fuseworks.registry.selectors import runnable
from fuseworks.runs.services import run_create

BUDGETS_S = (60, 180, 300, 480, 900)


@page("recipe-versions/<uuid:version_id>/apply/", title=_("Apply to my model"), name="recipe_apply")
@require_http_methods(["GET", "POST"])
def recipe_apply(request: HttpRequest, version_id: uuid.UUID) -> HttpResponse:
    actor = actor_of(request)
    recipe_version = get_or_404(selectors.recipe_versions_visible_to(actor), what="recipe version", pk=version_id)
    seen = ModelVersion.objects.visible_to(actor).select_related("model__team")
    versions = seen.filter(model__team__in=_teams(actor, recipe_version), deleted_at=None)
    chosen = request.POST.get("version") or request.GET.get("model_version", "")
    targets = selectors.targets_for(recipe_version=recipe_version)
    error = None
    if request.method == "POST":
        try:
            version = get_or_404(seen, what="model version", pk=_uuid(request.POST.get("version", "")))
            policy = {"budget_s": float(_budget(request.POST.get("budget_s", "")))}
            if request.POST.get("bfloat16"):
                policy = {**policy, "precisions": ["float32", "bfloat16"]}  # type: ignore[dict-item]
            run = run_create(
                actor=actor,
                version=version,
                purpose="replay",
                target=_target(request.POST.get("target", ""), targets, recipe_version),
                recipe_version=recipe_version,
                policy=policy,
            )
            return redirect("run", run_id=run.pk)
        except PlatformError as refused:
            if refused.status not in HERE:
                raise
            error = refused
    return render(
        request,
        "recipes/apply.html",
        {
            "recipe_version": recipe_version,
            "versions": _offered(versions, chosen),
            "chosen": chosen,
            "budgets": BUDGETS_S,
            "targets": targets,
            "error": error,
        },
        status=error.status if error else 200,
    )


def _offered(versions: QuerySet[ModelVersion], chosen: str) -> list[ModelVersion]:
    """Each model's newest one that can be run, as CI uploads a version a commit; before them the one that was chosen
    already."""
    one_a_model = runnable(versions).order_by("model__name", "model_id", "-number").distinct("model__name", "model_id")
    newest = [version for version in one_a_model.defer("inspection") if str(version.pk) != chosen]
    with contextlib.suppress(PlatformError):  # whatever the address says is no error before the form is sent
        newest = [*versions.filter(pk=_uuid(chosen)), *newest]
    return newest


def _teams(actor: Actor, recipe_version: RecipeVersion) -> list[Team]:
    """Where the actor may run it: a run shows the recipe's steps to all of its team."""
    teams = teams_where(actor, RUN)
    return [team for team in teams if selectors.seen_by_all_of(team).filter(pk=recipe_version.pk).exists()]


def _uuid(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError as error:
        raise PlatformError("core:usage:invalid", place="version", text=_("choose a model version")) from error


def _target(text: str, targets: list[str], recipe_version: RecipeVersion) -> str:
    if not targets:
        raise PlatformError("recipes:usage:no-target", kind=recipe_version.target_kind)
    if text and text not in targets:
        raise PlatformError("core:usage:invalid", place="target", text=_("choose one of the targets"))
    return text or targets[0]


def _budget(text: str) -> int:
    budget_s = whole_number(text)
    if budget_s not in BUDGETS_S:
        raise PlatformError("core:usage:invalid", place="budget_s", text=_("choose one of the budgets"))
    return budget_s
