"""Writes of the catalog: drafts, publishing, deprecation, and evidence as runs end."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.contrib.postgres.search import SearchVector
from django.db import IntegrityError, transaction
from django.db.models import Value
from django.utils import timezone
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy
from packaging.version import Version

from fuseworks.accounts.models import Team
from fuseworks.accounts.permissions import PUBLISH_COMPANY, PUBLISH_RECIPE, SAVE_RECIPE, Actor, audit, require
from fuseworks.core.errors import PlatformError
from fuseworks.recipes.documents import fields_of, plan_digest, read, with_metadata
from fuseworks.recipes.knowing import unknown_step
from fuseworks.recipes.models import Evidence, Recipe, RecipeState, RecipeVersion, Visibility
from fuseworks.recipes.selectors import reaches
from fuseworks.results.models import RunResult
from fuseworks.runs.models import Run
from optimizer.recipe.document import Recipe as Document
from optimizer.result import Result, RunStatus, Verdict

# What a replay that failed says of the recipe. Any other failure is the model's or the machine's, and says nothing.
EVIDENT = {
    "replay:user:does-not-apply": "refused",
    "replay:user:precision": "refused",
    "replay:user:not-accepted": "failed",
    "optimizing:user:unknown-pass": "failed",
    "optimizing:user:bad-options": "failed",
}


@transaction.atomic
def recipe_save(
    *,
    actor: Actor,
    team: Team,
    document: str | dict[str, Any],
    source_run: Run | None = None,
    derived_from: RecipeVersion | None = None,
) -> RecipeVersion:
    """A new draft in `team`. A name that the team has already gets a further version of that recipe."""
    require(actor, team, SAVE_RECIPE)
    given = read(document)
    recipe, _ = Recipe.objects.get_or_create(team=team, name=given.metadata.name)
    same = RecipeVersion.objects.filter(recipe=recipe, digest=fields_of(given)["digest"]).first()
    if same is not None:
        raise PlatformError(
            "recipes:usage:exists",
            name=recipe.name,
            version=same.version,
            extra={"recipe": str(recipe.pk), "recipe_version": str(same.pk)},
        )
    saved = _insert(recipe, given, created_by=actor.user, source_run=source_run, derived_from=derived_from)
    audit(actor, "recipe.save", team=team, target=saved, name=recipe.name, version=saved.version)
    return saved


class Saved(NamedTuple):
    version: RecipeVersion
    is_new: bool  # else a version with these steps, of whatever state, was there


def recipe_save_from_run(*, actor: Actor, run: Run) -> Saved:
    """A draft of what a run found, with the run as its first evidence. The version's number rises by itself.

    When the team's recipe of that name has a version with the very same steps, the run becomes evidence of it.
    """
    require(actor, run.team, SAVE_RECIPE)
    result = RunResult.objects.filter(run=run).first()
    document = result.document.get("recipe") if result is not None else None
    if result is None or not document or run.purpose != "optimize":
        reason = gettext_lazy("nothing faster was found") if run.is_terminal else gettext_lazy("it is not over yet")
        if run.purpose != "optimize":
            reason = format_lazy(gettext_lazy("its purpose is {purpose}"), purpose=run.purpose)
        raise PlatformError("recipes:usage:no-recipe", reason=reason)
    name = read(document).metadata.name
    taken = RecipeVersion.objects.filter(recipe__team=run.team, recipe__name=name)
    saved_already = taken.filter(source_run=run).first()
    if saved_already is not None:
        return Saved(saved_already, is_new=False)
    same_plan = taken.filter(plan_digest=plan_digest(document)).order_by("-created_at").first()
    if same_plan is not None:  # found again: more evidence, and no new version of the same steps
        _evidence(same_plan, run, Result.model_validate(result.document), document)
        return Saved(same_plan, is_new=False)
    if taken.exists():
        document = with_metadata(document, version=_next_minor([v.version for v in taken]))
    with transaction.atomic():
        saved = recipe_save(actor=actor, team=run.team, document=document, source_run=run)
        _evidence(saved, run, Result.model_validate(result.document), saved.document)
    return Saved(saved, is_new=True)


def recipe_derive(*, actor: Actor, recipe_version: RecipeVersion, team: Team) -> RecipeVersion:
    """A draft of one's own that begins as a copy of a recipe that one can see."""
    source = f"{recipe_version.recipe.name}@{recipe_version.version}"
    own = RecipeVersion.objects.filter(recipe__team=team, recipe__name=recipe_version.recipe.name)
    version = _next_minor([v.version for v in own]) if own.exists() else recipe_version.version
    document = with_metadata(recipe_version.document, version=version, derived_from=source)
    return recipe_save(actor=actor, team=team, document=document, derived_from=recipe_version)


@transaction.atomic
def draft_edit(*, actor: Actor, recipe_version: RecipeVersion, document: str | dict[str, Any]) -> RecipeVersion:
    """Replaces a draft's document. Its name may change too: the draft then belongs to that recipe of the team."""
    team = recipe_version.recipe.team
    require(actor, team, SAVE_RECIPE)
    locked = RecipeVersion.objects.select_for_update().select_related("recipe").get(pk=recipe_version.pk)
    _require_draft(locked)
    given = read(document)
    before = locked.recipe
    if given.metadata.name != before.name:
        locked.recipe, _ = Recipe.objects.get_or_create(team=team, name=given.metadata.name)
    for field, value in fields_of(given).items():
        setattr(locked, field, value)
    _save(locked)
    if not before.versions.exists():
        before.delete()
    audit(actor, "recipe.edit", team=team, target=locked, name=locked.recipe.name, version=locked.version)
    return locked


@transaction.atomic
def draft_delete(*, actor: Actor, recipe_version: RecipeVersion) -> None:
    team = recipe_version.recipe.team
    require(actor, team, SAVE_RECIPE)
    locked = RecipeVersion.objects.select_for_update().select_related("recipe").get(pk=recipe_version.pk)
    _require_draft(locked)
    recipe = locked.recipe
    if locked.runs.exists():
        raise PlatformError("recipes:usage:in-use", **_named(locked))
    audit(actor, "recipe.delete_draft", team=team, target=locked, name=recipe.name)
    locked.delete()
    if not recipe.versions.exists():
        recipe.delete()


@transaction.atomic
def version_publish(
    *, actor: Actor, recipe_version: RecipeVersion, visibility: str, digest: str | None = None
) -> RecipeVersion:
    """From now on the document never changes. Maintainers publish to their team and unit, owners to the company.

    What names a pass or a backend that no worker knows is refused (`recipes.knowing`).
    `digest`: of the document that was looked at; refused when the draft was edited since. Publishing never narrows who
    may find the recipe, `visibility_change` does: so a further version of one for the company needs an owner too.
    """
    if visibility not in Visibility.values:
        raise PlatformError("recipes:usage:visibility", place="visibility", visibility=visibility)
    require(actor, recipe_version.recipe.team, PUBLISH_RECIPE)
    locked = RecipeVersion.objects.select_for_update().select_related("recipe").get(pk=recipe_version.pk)
    _require_draft(locked)
    if digest is not None and digest != locked.digest:
        raise PlatformError("recipes:usage:edited", place="digest", **_named(locked))
    unknown = unknown_step(locked)
    if unknown is not None:
        raise unknown
    recipe = Recipe.objects.select_for_update(of=("self",)).select_related("team").get(pk=locked.recipe_id)
    possible = reaches(recipe=recipe, but=locked)
    reach = visibility if visibility in possible else possible[0]
    if reach == Visibility.COMPANY:
        require(actor, recipe.team, PUBLISH_COMPANY)
    now = timezone.now()
    RecipeVersion.objects.filter(pk=locked.pk).update(
        state=RecipeState.PUBLISHED, published_at=now, published_by=actor.user, updated_at=now
    )
    Recipe.objects.filter(pk=recipe.pk).update(visibility=reach)
    recipe_version.refresh_from_db()
    audit(actor, "recipe.publish", team=recipe.team, target=recipe_version, name=recipe.name, visibility=reach)
    return recipe_version


@transaction.atomic
def visibility_change(*, actor: Actor, recipe: Recipe, visibility: str) -> Recipe:
    """What is for the company only its owners narrow: others rely on it. How it stands counts, not how it was seen."""
    if visibility not in Visibility.values:
        raise PlatformError("recipes:usage:visibility", place="visibility", visibility=visibility)
    recipe = Recipe.objects.select_for_update(of=("self",)).select_related("team").get(pk=recipe.pk)
    reaches_company = Visibility.COMPANY in (visibility, recipe.visibility)
    require(actor, recipe.team, PUBLISH_COMPANY if reaches_company else PUBLISH_RECIPE)
    recipe.visibility = visibility
    recipe.save(update_fields=["visibility", "updated_at"])
    audit(actor, "recipe.visibility", team=recipe.team, target=recipe, visibility=visibility)
    return recipe


@transaction.atomic
def version_deprecate(*, actor: Actor, recipe_version: RecipeVersion, reason: str) -> RecipeVersion:
    """It stays readable and its evidence too; the catalog no longer offers it."""
    team = recipe_version.recipe.team
    require(actor, team, PUBLISH_RECIPE)
    changed = RecipeVersion.objects.filter(pk=recipe_version.pk, state=RecipeState.PUBLISHED).update(
        state=RecipeState.DEPRECATED, deprecated_at=timezone.now(), deprecation_reason=reason[:500]
    )
    recipe_version.refresh_from_db()
    if changed != 1:
        raise PlatformError("recipes:usage:not-published", **_named(recipe_version))
    audit(actor, "recipe.deprecate", team=team, target=recipe_version, reason=reason)
    return recipe_version


@transaction.atomic
def version_undeprecate(*, actor: Actor, recipe_version: RecipeVersion) -> RecipeVersion:
    """The undo of `version_deprecate`: it is published as before, and the catalog offers it to whom it did."""
    team = recipe_version.recipe.team
    require(actor, team, PUBLISH_RECIPE)
    reason = recipe_version.deprecation_reason
    changed = RecipeVersion.objects.filter(pk=recipe_version.pk, state=RecipeState.DEPRECATED).update(
        state=RecipeState.PUBLISHED, deprecated_at=None, deprecation_reason="", updated_at=timezone.now()
    )
    recipe_version.refresh_from_db()
    if changed != 1:
        raise PlatformError("recipes:usage:not-deprecated", **_named(recipe_version))
    audit(actor, "recipe.undeprecate", team=team, target=recipe_version, reason=reason)
    return recipe_version


def evidence_record(*, run: Run, result: Result) -> Evidence | None:
    """What a replay showed, good or bad. What was ours or the machine's fault is no evidence about the recipe."""
    if run.purpose != "replay" or run.recipe_version is None:
        return None
    return _evidence(run.recipe_version, run, result, run.recipe_document or run.recipe_version.document)


def _evidence(recipe_version: RecipeVersion, run: Run, result: Result, measured: dict[str, Any]) -> Evidence | None:
    """`measured`: the document that the run worked by."""
    outcome, reason = _outcome(result)
    if outcome is None:
        return None
    interval = result.speedup_ci
    fixed = dict(result.conditions.fixed) if result.conditions else {}
    evidence, _ = Evidence.objects.update_or_create(
        run=run,
        defaults={
            "recipe_version": recipe_version,
            "plan_digest": plan_digest(measured),
            "model_version": run.version,
            "family": run.version.model.family,
            "outcome": outcome,
            "reason": reason[:500],
            "speedup": result.speedup,
            "speedup_low": interval.low if interval else None,
            "speedup_high": interval.high if interval else None,
            "target": run.target,
            "conditions": fixed,
        },
    )
    return evidence


def _outcome(result: Result) -> tuple[str | None, str]:
    if result.status == RunStatus.SUCCEEDED and result.verdict is not None:
        if result.verdict == Verdict.FASTER and result.accepted is False:
            return "not_accepted", result.not_accepted_because
        return result.verdict.value, result.summary
    problem = result.problem
    if result.status == RunStatus.FAILED and problem is not None:
        return EVIDENT.get(problem.id), problem.message
    return None, ""


def _insert(recipe: Recipe, given: Document, **more: Any) -> RecipeVersion:
    version = RecipeVersion(recipe=recipe, **fields_of(given), **more)
    _save(version)
    return version


def _save(version: RecipeVersion) -> None:
    try:
        with transaction.atomic():
            version.save()
    except IntegrityError as error:
        raise PlatformError(
            "recipes:usage:version-taken", place="metadata.version", name=version.recipe.name, version=version.version
        ) from error
    words = " ".join([version.recipe.name, version.recipe.name.replace("-", " "), *version.tags, version.backend])
    passes = " ".join([*version.passes, *(p.replace("_", " ") for p in version.passes)])
    RecipeVersion.objects.filter(pk=version.pk).update(
        search=SearchVector(Value(f"{version.title} {words}"), weight="A", config="simple")
        + SearchVector(Value(f"{version.summary} {passes}"), weight="B", config="simple")
    )


def _require_draft(version: RecipeVersion) -> None:
    if version.state != RecipeState.DRAFT:
        raise PlatformError("recipes:usage:not-a-draft", **_named(version))


def _named(version: RecipeVersion) -> dict[str, Any]:
    return {"name": version.recipe.name, "version": version.version, "state": version.state}


def _next_minor(versions: list[str]) -> str:
    """`1.2.0` after `1.1.4`: a document that was found anew is no mere patch."""
    highest = max(Version(v.split("-")[0].split("+")[0]) for v in versions)
    return f"{highest.major}.{highest.minor + 1}.0"
