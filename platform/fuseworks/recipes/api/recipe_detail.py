"""`recipes/<uuid>/`: one recipe with its versions, and who may find it."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint
from fuseworks.core.lookup import get_or_404
from fuseworks.recipes import selectors
from fuseworks.recipes.api.serializers import RecipeVersionSerializer, VisibilitySerializer
from fuseworks.recipes.models import Recipe, Visibility
from fuseworks.recipes.services import visibility_change


class RecipeSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    team = serializers.CharField(source="team.slug")
    visibility = serializers.ChoiceField(choices=Visibility.choices)
    versions = serializers.SerializerMethodField()

    @extend_schema(responses=RecipeVersionSerializer(many=True))
    def get_versions(self, recipe: Recipe) -> list[dict[str, Any]]:
        rows = selectors.recipe_versions_visible_to(self.context["actor"]).filter(recipe=recipe)
        rows = selectors.with_best_gain(rows).order_by("-created_at")
        return RecipeVersionSerializer(rows, many=True, context=self.context).data  # type: ignore[return-value]


@endpoint("recipes/<uuid:recipe_id>/", name="recipe-detail")
class RecipeDetail(APIView):
    @extend_schema(responses=RecipeSerializer)
    def get(self, request: Any, recipe_id: Any) -> Response:
        """The recipe with all its versions that you may see, newest first."""
        actor = actor_of(request)
        recipe = get_or_404(selectors.recipes_visible_to(actor), what="recipe", pk=recipe_id)
        return Response(RecipeSerializer(recipe, context={"actor": actor}).data)

    @extend_schema(request=VisibilitySerializer, responses=RecipeSerializer)
    def patch(self, request: Any, recipe_id: Any) -> Response:
        """Change who may find it: team, unit or company."""
        given = VisibilitySerializer(data=request.data)
        given.is_valid(raise_exception=True)
        actor = actor_of(request)
        recipe = get_or_404(selectors.recipes_visible_to(actor), what="recipe", pk=recipe_id)
        recipe = visibility_change(actor=actor, recipe=recipe, visibility=given.validated_data["visibility"])
        return Response(RecipeSerializer(recipe, context={"actor": actor}).data)
