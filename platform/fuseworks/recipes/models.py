"""Recipes of teams, their immutable versions, and the evidence of each version."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.utils.translation import gettext_lazy as _

from fuseworks.accounts.models import Team, User
from fuseworks.core.models import Row
from fuseworks.registry.models import Family, ModelVersion
from fuseworks.runs.models import Run


class Visibility(models.TextChoices):
    """Who may find a published recipe, the narrowest first."""

    TEAM = "team", _("Team")
    UNIT = "unit", _("Business unit")
    COMPANY = "company", _("Company")


class Recipe(Row):
    """Its query set's `visible_to` is in `recipes.selectors`: a recipe may be seen beyond its team."""

    team = models.ForeignKey(Team, models.PROTECT, related_name="recipes")
    name = models.SlugField(max_length=80, help_text="metadata.name of its documents")
    visibility = models.CharField(max_length=8, choices=Visibility.choices, default=Visibility.TEAM)

    class Meta:
        constraints: ClassVar[list[Any]] = [models.UniqueConstraint(fields=["team", "name"], name="one_recipe_a_name")]

    def __str__(self) -> str:
        return self.name


class RecipeState(models.TextChoices):
    DRAFT = "draft"
    PUBLISHED = "published"
    DEPRECATED = "deprecated"


class RecipeVersion(Row):
    """One document. A draft may still be edited; once published it never changes, and `digest` is its identity."""

    recipe = models.ForeignKey(Recipe, models.PROTECT, related_name="versions")
    version = models.CharField(max_length=30, help_text="metadata.version, semantic")
    state = models.CharField(max_length=10, choices=RecipeState.choices, default=RecipeState.DRAFT)
    document = models.JSONField()
    digest = models.CharField(max_length=64, help_text="SHA-256 of the canonical JSON (RFC 8785)")
    plan_digest = models.CharField(max_length=64, help_text="the same without the metadata: what evidence is of")
    title = models.CharField(max_length=200)
    summary = models.TextField(blank=True)
    tags = ArrayField(models.CharField(max_length=60), default=list)
    target_kind = models.CharField(max_length=20)
    mode = models.CharField(max_length=10)
    passes = ArrayField(models.CharField(max_length=80), default=list)
    backend = models.CharField(max_length=40)
    derived_from = models.ForeignKey("self", models.SET_NULL, null=True, related_name="derived")
    source_run = models.ForeignKey(Run, models.SET_NULL, null=True, related_name="recipe_versions")
    created_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    published_at = models.DateTimeField(null=True)
    published_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    deprecated_at = models.DateTimeField(null=True)
    deprecation_reason = models.CharField(max_length=500, blank=True)
    search = SearchVectorField(null=True)

    class Meta:
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["recipe", "version"], name="one_recipe_version")
        ]
        indexes: ClassVar[list[Any]] = [
            GinIndex(fields=["search"]),
            models.Index(fields=["state", "target_kind", "mode"]),
        ]


class Evidence(Row):
    """How a recipe version did on some model, good or bad. Readers who may not see the run see figures and family."""

    recipe_version = models.ForeignKey(RecipeVersion, models.CASCADE, related_name="evidence")
    run = models.OneToOneField(Run, models.CASCADE, related_name="evidence")
    plan_digest = models.CharField(
        max_length=64, help_text="of the document that was measured; a draft that was edited since has another"
    )
    model_version = models.ForeignKey(ModelVersion, models.PROTECT, related_name="evidence")
    family = models.CharField(max_length=12, choices=Family.choices, help_text="told to everybody")
    outcome = models.CharField(
        max_length=20, help_text="faster, slower, same, cannot_tell, not_accepted, refused, failed"
    )
    reason = models.CharField(max_length=500, blank=True)
    speedup = models.FloatField(null=True)
    speedup_low = models.FloatField(null=True)
    speedup_high = models.FloatField(null=True)
    target = models.CharField(max_length=40)
    conditions = models.JSONField(default=dict)
