"""Publish a draft, deprecate what is published, take that back. The first two ask once and say who will see what."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods, require_POST

from fuseworks.accounts.permissions import PUBLISH_COMPANY, PUBLISH_RECIPE, Actor, actor_of, may, require
from fuseworks.core.discovery import page
from fuseworks.core.errors import PlatformError
from fuseworks.recipes import selectors, services
from fuseworks.recipes.models import RecipeState, RecipeVersion, Visibility
from fuseworks.recipes.pages.recipe_actions import show, visible

form_only = require_http_methods(["GET", "HEAD", "POST"])


@page("recipe-versions/<uuid:version_id>/publish/", title=_("Publish"), name="recipe_publish")
@form_only
def recipe_publish(request: HttpRequest, version_id: uuid.UUID) -> HttpResponse:
    actor, version = actor_of(request), visible(request, version_id)
    if request.method == "POST":
        services.version_publish(
            actor=actor,
            recipe_version=version,
            visibility=request.POST.get("visibility", ""),
            digest=request.POST.get("digest", ""),
        )
        messages.success(request, gettext("Published. Its document will never change."))
        return show(version)
    _require(actor, version, RecipeState.DRAFT, "recipes:usage:not-a-draft")
    least = selectors.reaches(recipe=version.recipe, but=version)[0]
    shown = {"version": version, "choices": _choices(actor, version), "least": least}
    return render(request, "recipes/publish.html", shown)


@page("recipe-versions/<uuid:version_id>/deprecate/", title=_("Deprecate"), name="recipe_deprecate")
@form_only
def recipe_deprecate(request: HttpRequest, version_id: uuid.UUID) -> HttpResponse:
    actor, version = actor_of(request), visible(request, version_id)
    reason = request.POST.get("reason", "").strip()
    if reason:
        services.version_deprecate(actor=actor, recipe_version=version, reason=reason)
        messages.success(request, gettext("Deprecated. The catalog no longer offers it."))
        return show(version)
    _require(actor, version, RecipeState.PUBLISHED, "recipes:usage:not-published")
    missing = request.method == "POST"
    shown = {"version": version, "audience": audience(version, version.recipe.visibility), "missing": missing}
    return render(request, "recipes/deprecate.html", shown, status=422 if missing else 200)


@page("recipe-versions/<uuid:version_id>/undeprecate/", title=_("Offer again"), name="recipe_undeprecate")
@require_POST
def recipe_undeprecate(request: HttpRequest, version_id: uuid.UUID) -> HttpResponse:
    version = services.version_undeprecate(actor=actor_of(request), recipe_version=visible(request, version_id))
    messages.success(request, gettext("The catalog offers it again."))
    return show(version)


def audience(version: RecipeVersion, visibility: str) -> str:
    """Who may find it, in words."""
    team = version.recipe.team
    if visibility == Visibility.TEAM:
        return gettext("the members of %(team)s") % {"team": team.name}
    if visibility == Visibility.UNIT:
        return gettext("everybody who is in a team of %(unit)s") % {"unit": team.business_unit.name}
    return gettext("everybody who is in any team of this site")


def _choices(actor: Actor, version: RecipeVersion) -> list[tuple[str, str, str]]:
    """As far as the actor may publish it: value, label, who will see it. Empty when only an owner may."""
    return [
        (one.value, str(one.label), audience(version, one))
        for one in selectors.reaches(recipe=version.recipe, but=version)
        if may(actor, version.recipe.team, PUBLISH_COMPANY if one == Visibility.COMPANY else PUBLISH_RECIPE)
    ]


def _require(actor: Actor, version: RecipeVersion, state: RecipeState, error: str) -> None:
    """The form is for whom its answer would be allowed, too. Raises PlatformError."""
    require(actor, version.recipe.team, PUBLISH_RECIPE)
    if version.state != state:
        raise PlatformError(error, name=version.recipe.name, version=version.version, state=version.state)
