"""What forms of the recipe pages post: save, edit, derive, delete, change visibility."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods, require_POST

from fuseworks.accounts.permissions import READ, SAVE_RECIPE, actor_of, require, teams_where
from fuseworks.accounts.telling import HERE
from fuseworks.core.discovery import page
from fuseworks.core.errors import PlatformError
from fuseworks.core.lookup import get_or_404
from fuseworks.recipes import selectors, services
from fuseworks.recipes.documents import yaml_of
from fuseworks.recipes.models import RecipeState, RecipeVersion
from fuseworks.runs.models import Run
from optimizer.recipe.example import EXAMPLE


def visible(request: HttpRequest, version_id: uuid.UUID) -> RecipeVersion:
    found = selectors.recipe_versions_visible_to(actor_of(request))
    version: RecipeVersion = get_or_404(found, what="recipe version", pk=version_id)
    return version


def show(version: RecipeVersion) -> HttpResponse:
    address = reverse("recipe", args=[version.recipe_id])
    return redirect(f"{address}?version={version.pk}")


@page("runs/<uuid:run_id>/save-recipe/", title=_("Save as recipe"), name="recipe_save")
@require_POST
def recipe_save(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """One click on a run's page."""
    actor = actor_of(request)
    run = get_or_404(Run.objects.visible_to(actor), what="run", pk=run_id)
    saved = services.recipe_save_from_run(actor=actor, run=run)
    messages.success(request, _told(saved))
    return show(saved.version)


def _told(saved: services.Saved) -> str:
    if saved.is_new:
        return gettext("Saved as a draft. Publish it to share it.")
    if saved.version.state == RecipeState.DRAFT:
        return gettext(
            "Your team has a draft with these very steps: the run is evidence of it now. Publish it to share it."
        )
    return gettext("Your team has a recipe with these very steps: the run is evidence of it now.")


@page("recipes/new/", title=_("New recipe"), name="recipe_new")
@require_http_methods(["GET", "POST"])
def recipe_new(request: HttpRequest) -> HttpResponse:
    """A draft out of YAML that is written here or pasted; the form begins with an example."""
    actor = actor_of(request)
    teams = teams_where(actor, SAVE_RECIPE)
    text, error = EXAMPLE, None
    if request.method == "POST":
        text = request.POST.get("document", "")
        team = get_or_404(teams_where(actor, READ), what="team", slug=request.POST.get("team", ""))
        try:
            return show(services.recipe_save(actor=actor, team=team, document=text))
        except PlatformError as refused:
            if refused.status not in HERE:
                raise
            error = refused
    shown = {"text": text, "error": error, "teams": teams, "team": request.POST.get("team", "")}
    return render(request, "recipes/edit.html", shown, status=error.status if error else 200)


@page("recipe-versions/<uuid:version_id>/edit/", title=_("Edit recipe"), name="recipe_edit")
@require_http_methods(["GET", "POST"])
def recipe_edit(request: HttpRequest, version_id: uuid.UUID) -> HttpResponse:
    version = visible(request, version_id)
    require(actor_of(request), version.recipe.team, SAVE_RECIPE)
    text, error = request.POST.get("document") or yaml_of(version), None
    if request.method == "POST":
        try:
            edited = services.draft_edit(actor=actor_of(request), recipe_version=version, document=text)
        except PlatformError as refused:
            if refused.status not in HERE:
                raise
            error = refused
        else:
            messages.success(request, gettext("Saved."))
            return show(edited)
    shown = {"text": text, "error": error, "version": version}
    return render(request, "recipes/edit.html", shown, status=error.status if error else 200)


@page("recipe-versions/<uuid:version_id>/derive/", title=_("Derive"), name="recipe_derive")
@require_POST
def recipe_derive(request: HttpRequest, version_id: uuid.UUID) -> HttpResponse:
    actor = actor_of(request)
    team = get_or_404(teams_where(actor, READ), what="team", slug=request.POST.get("team", ""))
    derived = services.recipe_derive(actor=actor, recipe_version=visible(request, version_id), team=team)
    messages.success(request, gettext("This draft of yours begins as a copy. Edit it, then publish it."))
    return show(derived)


@page("recipe-versions/<uuid:version_id>/delete/", title=_("Delete draft"), name="recipe_delete")
@require_POST
def recipe_delete(request: HttpRequest, version_id: uuid.UUID) -> HttpResponse:
    services.draft_delete(actor=actor_of(request), recipe_version=visible(request, version_id))
    messages.success(request, gettext("The draft is deleted."))
    return redirect("catalog")


@page("recipes/<uuid:recipe_id>/visibility/", title=_("Visibility"), name="recipe_visibility")
@require_POST
def recipe_visibility(request: HttpRequest, recipe_id: uuid.UUID) -> HttpResponse:
    actor = actor_of(request)
    recipe = get_or_404(selectors.recipes_visible_to(actor), what="recipe", pk=recipe_id)
    services.visibility_change(actor=actor, recipe=recipe, visibility=request.POST.get("visibility", ""))
    messages.success(request, gettext("Changed who may find it."))
    return redirect("recipe", recipe_id=recipe.pk)
