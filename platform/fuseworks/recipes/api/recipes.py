"""`recipes/`: the catalog as a list, and new drafts."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics, status
from rest_framework.response import Response

from fuseworks.accounts.permissions import READ, actor_of, teams_where
from fuseworks.core.discovery import endpoint
from fuseworks.core.lookup import get_or_404
from fuseworks.recipes import selectors
from fuseworks.recipes.api.serializers import RecipeVersionDetailSerializer, RecipeVersionSerializer, SaveSerializer
from fuseworks.recipes.query import query_of
from fuseworks.recipes.services import recipe_save

_PARAMETERS = [
    OpenApiParameter("q", str, description="words to search for in name, title, summary, tags and passes"),
    OpenApiParameter("target", str, description="cpu, cuda, rocm"),
    OpenApiParameter("mode", str, description="inference, training"),
    OpenApiParameter("pass", str, description="a pass among the steps"),
    OpenApiParameter("unit", str, description="slug of the business unit that owns it"),
    OpenApiParameter("backend", str),
    OpenApiParameter("state", str, description="draft, published (default), deprecated, or any"),
    OpenApiParameter("min_gain", float, description="least lower bound of a speedup that evidence shows"),
    OpenApiParameter("sort", str, description="newest, gain, name"),
]


@endpoint("recipes/", name="recipe-list")
class Recipes(generics.GenericAPIView[Any]):
    serializer_class = RecipeVersionSerializer
    filter_backends = ()

    @extend_schema(parameters=_PARAMETERS, responses=RecipeVersionSerializer(many=True))
    def get(self, request: Any) -> Response:
        """Search the catalog: the newest fitting version of each recipe that you may see."""
        actor = actor_of(request)
        page = self.paginate_queryset(selectors.catalog(actor=actor, query=query_of(request.query_params)))
        return self.get_paginated_response(RecipeVersionSerializer(page, many=True, context={"actor": actor}).data)

    @extend_schema(request=SaveSerializer, responses={201: RecipeVersionDetailSerializer})
    def post(self, request: Any) -> Response:
        """Save a document as a draft. A name that the team has already gets a further version."""
        given = SaveSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        actor = actor_of(request)
        team = get_or_404(teams_where(actor, READ), what="team", slug=given.validated_data["team"])
        saved = recipe_save(actor=actor, team=team, document=given.validated_data["document"])
        shown = RecipeVersionDetailSerializer(saved, context={"actor": actor})
        return Response(shown.data, status=status.HTTP_201_CREATED)
