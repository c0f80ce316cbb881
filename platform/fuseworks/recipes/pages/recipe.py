"""One recipe: document, evidence good and bad, lineage, and what may be done with it."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from fuseworks.accounts.permissions import (
    PUBLISH_COMPANY,
    PUBLISH_RECIPE,
    RUN,
    SAVE_RECIPE,
    Actor,
    actor_of,
    may,
    teams_where,
)
from fuseworks.core.discovery import page
from fuseworks.core.errors import PlatformError
from fuseworks.core.lookup import get_or_404
from fuseworks.recipes import selectors
from fuseworks.recipes.documents import yaml_of
from fuseworks.recipes.knowing import unknown_step
from fuseworks.recipes.models import Recipe, RecipeState, RecipeVersion, Visibility
from fuseworks.recipes.pages.recipe_publishing import audience
from fuseworks.runs.models import Run

EVIDENCE_A_PAGE = 50


@page("recipes/<uuid:recipe_id>/", title=_("Recipe"))
@require_safe
def recipe(request: HttpRequest, recipe_id: uuid.UUID) -> HttpResponse:
    actor = actor_of(request)
    found: Recipe = get_or_404(selectors.recipes_visible_to(actor), what="recipe", pk=recipe_id)
    versions = list(
        selectors.with_best_gain(selectors.recipe_versions_visible_to(actor).filter(recipe=found))
        .select_related("derived_from__recipe", "source_run__version__model", "created_by", "published_by")
        .order_by("-created_at")
    )
    shown = _chosen(versions, request.GET.get("version"))
    page = Paginator(selectors.evidence_of(recipe_version=shown), EVIDENCE_A_PAGE).get_page(request.GET.get("page"))
    visible = selectors.recipe_versions_visible_to(actor)
    return render(
        request,
        "recipes/recipe.html",
        {
            "recipe": found,
            "shown": shown,
            "versions": versions,
            "yaml": yaml_of(shown),
            "unknown": unknown_step(shown),
            "evidence": selectors.as_seen_by(actor, page.object_list),
            "page": page,
            "derived_from": visible.filter(derived=shown).first(),
            "derived": visible.filter(derived_from=shown),
            "source_run": _source_run(actor, shown),
            "visibilities": _visibilities(actor, found),
            "audience": audience(shown, found.visibility),
            "may_edit": may(actor, found.team, SAVE_RECIPE),
            "may_publish": may(actor, found.team, PUBLISH_RECIPE),
            "may_apply": teams_where(actor, RUN).exists(),
            "own_teams": teams_where(actor, SAVE_RECIPE),
            "site": settings.PUBLIC_URL,
        },
    )


def _chosen(versions: list[RecipeVersion], wanted: str | None) -> RecipeVersion:
    """The version that the address names; else the newest published one, else the newest."""
    if wanted:
        for version in versions:
            if wanted in {version.version, str(version.pk)}:
                return version
        raise PlatformError("core:usage:not-found", what="recipe version")
    published = [v for v in versions if v.state == RecipeState.PUBLISHED]
    return (published or versions)[0]


def _source_run(actor: Actor, shown: RecipeVersion) -> Run | None:
    """The run that it was found by, for who may see that."""
    if shown.source_run_id is None:
        return None
    return Run.objects.visible_to(actor).select_related("version__model").filter(pk=shown.source_run_id).first()


def _visibilities(actor: Actor, recipe: Recipe) -> list[tuple[str, str]]:
    """Those that the actor may publish to."""
    allowed = []
    for value, label in Visibility.choices:
        if may(actor, recipe.team, PUBLISH_COMPANY if value == Visibility.COMPANY else PUBLISH_RECIPE):
            allowed.append((value, str(label)))
    return allowed
