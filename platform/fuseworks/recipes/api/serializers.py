"""How recipes look in the API; the context has the `actor`. Evidence tells its figures to everybody, model and run only
to who may see the run."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from fuseworks.core.bodies import Body
from fuseworks.recipes.models import RecipeState, RecipeVersion, Visibility
from fuseworks.recipes.selectors import recipe_versions_visible_to
from fuseworks.runs.serializers import PolicyField


class RecipeVersionSerializer(serializers.ModelSerializer[RecipeVersion]):
    recipe = serializers.UUIDField(source="recipe_id")
    name = serializers.CharField(source="recipe.name")
    team = serializers.CharField(source="recipe.team.slug")
    business_unit = serializers.CharField(source="recipe.team.business_unit.slug")
    visibility = serializers.ChoiceField(source="recipe.visibility", choices=Visibility.choices)
    state = serializers.ChoiceField(choices=RecipeState.choices)
    derived_from = serializers.SerializerMethodField(help_text="null too when you may not see that one")
    best_gain = serializers.SerializerMethodField(
        help_text="the best lower bound of a speedup that evidence shows; null without any"
    )
    evidence_faster = serializers.SerializerMethodField(help_text="how many outcomes best_gain is the best of")
    evidence_all = serializers.SerializerMethodField(help_text="all outcomes, good and bad")

    class Meta:
        model = RecipeVersion
        fields: tuple[str, ...] = (
            "id",
            "recipe",
            "name",
            "version",
            "state",
            "title",
            "summary",
            "tags",
            "team",
            "business_unit",
            "visibility",
            "target_kind",
            "mode",
            "passes",
            "backend",
            "digest",
            "best_gain",
            "evidence_faster",
            "evidence_all",
            "derived_from",
            "created_at",
            "published_at",
            "deprecated_at",
            "deprecation_reason",
        )
        read_only_fields = fields

    @extend_schema_field(serializers.UUIDField(allow_null=True))
    def get_derived_from(self, version: RecipeVersion) -> str | None:
        if version.derived_from_id is None:
            return None
        seen = recipe_versions_visible_to(self.context["actor"]).filter(pk=version.derived_from_id)
        return str(version.derived_from_id) if seen.exists() else None

    def get_best_gain(self, version: RecipeVersion) -> float | None:
        return getattr(version, "best_gain", None)

    def get_evidence_faster(self, version: RecipeVersion) -> int | None:
        return getattr(version, "evidence_faster", None)

    def get_evidence_all(self, version: RecipeVersion) -> int | None:
        return getattr(version, "evidence_all", None)


class RecipeVersionDetailSerializer(RecipeVersionSerializer):
    document = serializers.JSONField(help_text="the recipe itself; `fuseworks schema recipe` prints its schema")

    class Meta(RecipeVersionSerializer.Meta):
        fields = (*RecipeVersionSerializer.Meta.fields, "document")
        read_only_fields = fields


class EvidenceSerializer(serializers.Serializer[Any]):
    """One row; `run` and `model` are null for a reader who may not see the run."""

    outcome = serializers.CharField(source="evidence.outcome")
    reason = serializers.SerializerMethodField()
    family = serializers.CharField(source="evidence.family")
    target = serializers.CharField(source="evidence.target")
    speedup = serializers.FloatField(source="evidence.speedup", allow_null=True)
    speedup_low = serializers.FloatField(source="evidence.speedup_low", allow_null=True)
    speedup_high = serializers.FloatField(source="evidence.speedup_high", allow_null=True)
    conditions = serializers.JSONField(source="evidence.conditions")
    created_at = serializers.DateTimeField(source="evidence.created_at")
    run = serializers.SerializerMethodField()
    model = serializers.SerializerMethodField()

    def get_reason(self, row: Any) -> str | None:
        """Reasons name nodes and files of the model: only for who may see it."""
        return row.evidence.reason if row.run is not None else None

    def get_run(self, row: Any) -> str | None:
        return str(row.run.pk) if row.run is not None else None

    def get_model(self, row: Any) -> str | None:
        return row.model_name or None


class SaveSerializer(Body):
    team = serializers.SlugField(help_text="the team that the draft belongs to")
    document = serializers.JSONField(help_text="the recipe: an object, or its YAML as one string")


class DocumentSerializer(Body):
    document = serializers.JSONField(help_text="the recipe: an object, or its YAML as one string")


class VisibilitySerializer(Body):
    visibility = serializers.ChoiceField(choices=Visibility.choices)


class PublishSerializer(VisibilitySerializer):
    digest = serializers.CharField(
        max_length=64, required=False, help_text="of the document that you looked at: 409 when it was edited since"
    )


class DeprecateSerializer(Body):
    reason = serializers.CharField(max_length=500)


class DeriveSerializer(Body):
    team = serializers.SlugField()


class ApplySerializer(Body):
    version = serializers.UUIDField(help_text="the model version that it is applied to")
    target = serializers.CharField(
        max_length=40, required=False, help_text="default: the one that workers serve, of the recipe's kind"
    )
    policy = PolicyField(required=False, help_text="as of `runs/`")
