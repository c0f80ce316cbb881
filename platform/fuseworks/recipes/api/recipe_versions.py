"""`recipe-versions/<uuid>/...`: a document, its life (publish, deprecate, derive, apply) and its evidence."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics, status
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts.idempotency import KEY, answers, once
from fuseworks.accounts.permissions import READ, actor_of, teams_where
from fuseworks.core.discovery import endpoint
from fuseworks.core.errors import PlatformError
from fuseworks.core.lookup import get_or_404
from fuseworks.core.storage import attached
from fuseworks.recipes import selectors, services
from fuseworks.recipes.api.serializers import (
    ApplySerializer,
    DeprecateSerializer,
    DeriveSerializer,
    DocumentSerializer,
    EvidenceSerializer,
    PublishSerializer,
    RecipeVersionDetailSerializer,
)
from fuseworks.recipes.documents import yaml_of
from fuseworks.recipes.models import RecipeVersion
from fuseworks.registry.models import ModelVersion
from fuseworks.runs.models import Run
from fuseworks.runs.selectors import run_visible
from fuseworks.runs.serializers import RunDetailSerializer
from fuseworks.runs.services import run_create


def visible(request: Any, version_id: Any) -> RecipeVersion:
    found = selectors.with_best_gain(selectors.recipe_versions_visible_to(actor_of(request)))
    version: RecipeVersion = get_or_404(found, what="recipe version", pk=version_id)
    return version


def target_of(version: RecipeVersion) -> str:
    """Raises PlatformError (`recipes:usage:no-target`) when nothing serves the recipe's kind of target."""
    served = selectors.targets_for(recipe_version=version)
    if not served:
        raise PlatformError("recipes:usage:no-target", kind=version.target_kind)
    return served[0]


def detail(request: Any, version: RecipeVersion, code: int = status.HTTP_200_OK) -> Response:
    context = {"actor": actor_of(request)}
    return Response(RecipeVersionDetailSerializer(version, context=context).data, status=code)


@endpoint("recipe-versions/<uuid:version_id>/", name="recipe-version-detail")
class RecipeVersionDetail(APIView):
    @extend_schema(responses=RecipeVersionDetailSerializer)
    def get(self, request: Any, version_id: Any) -> Response:
        """The version with its document."""
        return detail(request, visible(request, version_id))

    @extend_schema(request=DocumentSerializer, responses=RecipeVersionDetailSerializer)
    def patch(self, request: Any, version_id: Any) -> Response:
        """Replace the document of a draft."""
        given = DocumentSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        version = visible(request, version_id)
        return detail(
            request,
            services.draft_edit(
                actor=actor_of(request), recipe_version=version, document=given.validated_data["document"]
            ),
        )

    @extend_schema(responses={204: None})
    def delete(self, request: Any, version_id: Any) -> Response:
        """Delete a draft. What was published is deprecated instead."""
        services.draft_delete(actor=actor_of(request), recipe_version=visible(request, version_id))
        return Response(status=status.HTTP_204_NO_CONTENT)


@endpoint("recipe-versions/<uuid:version_id>/recipe.yaml", name="recipe-version-file")
class RecipeVersionFile(APIView):
    @extend_schema(responses={(200, "application/yaml"): OpenApiTypes.STR})
    def get(self, request: Any, version_id: Any) -> HttpResponse:
        """The document as the YAML file that the command line takes."""
        version = visible(request, version_id)
        answer = HttpResponse(yaml_of(version), content_type="application/yaml; charset=utf-8")
        return attached(answer, f"{version.recipe.name}-{version.version}.yaml")


@endpoint("recipe-versions/<uuid:version_id>/publish/", name="recipe-version-publish")
class Publish(APIView):
    @extend_schema(request=PublishSerializer, responses=RecipeVersionDetailSerializer)
    def post(self, request: Any, version_id: Any) -> Response:
        """Publish a draft: from then on its document never changes."""
        given = PublishSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        version = visible(request, version_id)
        return detail(
            request, services.version_publish(actor=actor_of(request), recipe_version=version, **given.validated_data)
        )


@endpoint("recipe-versions/<uuid:version_id>/deprecate/", name="recipe-version-deprecate")
class Deprecate(APIView):
    @extend_schema(request=DeprecateSerializer, responses=RecipeVersionDetailSerializer)
    def post(self, request: Any, version_id: Any) -> Response:
        """Withdraw it from the catalog, with the reason. It stays readable, and `undeprecate` takes it back."""
        given = DeprecateSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        version = visible(request, version_id)
        return detail(
            request, services.version_deprecate(actor=actor_of(request), recipe_version=version, **given.validated_data)
        )


@endpoint("recipe-versions/<uuid:version_id>/undeprecate/", name="recipe-version-undeprecate")
class Undeprecate(APIView):
    @extend_schema(request=None, responses=RecipeVersionDetailSerializer)
    def post(self, request: Any, version_id: Any) -> Response:
        """Take a deprecation back: it is published as before."""
        version = visible(request, version_id)
        return detail(request, services.version_undeprecate(actor=actor_of(request), recipe_version=version))


@endpoint("recipe-versions/<uuid:version_id>/derive/", name="recipe-version-derive")
class Derive(APIView):
    @extend_schema(request=DeriveSerializer, responses={201: RecipeVersionDetailSerializer})
    def post(self, request: Any, version_id: Any) -> Response:
        """A draft in your team that begins as a copy of this."""
        given = DeriveSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        actor = actor_of(request)
        team = get_or_404(teams_where(actor, READ), what="team", slug=given.validated_data["team"])
        derived = services.recipe_derive(actor=actor, recipe_version=visible(request, version_id), team=team)
        return detail(request, derived, status.HTTP_201_CREATED)


@endpoint("recipe-versions/<uuid:version_id>/apply/", name="recipe-version-apply")
class Apply(APIView):
    @extend_schema(request=ApplySerializer, parameters=[KEY], responses=answers(RunDetailSerializer))
    def post(self, request: Any, version_id: Any) -> Response:
        """Start a run that replays this recipe on a model version of yours; its outcome becomes evidence."""
        given = ApplySerializer(data=request.data)
        given.is_valid(raise_exception=True)
        actor = actor_of(request)
        recipe_version = visible(request, version_id)
        models = ModelVersion.objects.visible_to(actor)
        version = get_or_404(models, what="model version", pk=given.validated_data["version"])
        run = once(
            request,
            actor=actor,
            make=lambda: run_create(
                actor=actor,
                version=version,
                purpose="replay",
                target=given.validated_data.get("target") or target_of(recipe_version),
                recipe_version=recipe_version,
                policy=given.validated_data.get("policy"),
            ),
            find=lambda run_id: run_visible(actor=actor, run_id=run_id),
        )
        shown = RunDetailSerializer(run.row, context={"request": request}).data
        return Response(shown, status=run.status, headers={"Location": shown["links"]["self"]})


@endpoint("recipe-versions/<uuid:version_id>/evidence/", name="recipe-version-evidence")
class EvidenceList(generics.GenericAPIView[Any]):
    serializer_class = EvidenceSerializer
    filter_backends = ()

    @extend_schema(
        parameters=[
            OpenApiParameter(
                "outcome", str, description="faster, slower, same, cannot_tell, not_accepted, refused, failed"
            )
        ],
        responses=EvidenceSerializer(many=True),
    )
    def get(self, request: Any, version_id: Any) -> Response:
        """How it did elsewhere, good and bad. Other teams' models are told by their family only."""
        rows = selectors.evidence_of(
            recipe_version=visible(request, version_id), outcome=request.query_params.get("outcome", "")
        )
        page = selectors.as_seen_by(actor_of(request), self.paginate_queryset(rows) or [])
        return self.get_paginated_response(EvidenceSerializer(page, many=True).data)


@endpoint("runs/<uuid:run_id>/recipe/", name="run-recipe")
class SaveFromRun(APIView):
    @extend_schema(request=None, responses={(200, 201): RecipeVersionDetailSerializer})
    def post(self, request: Any, run_id: Any) -> Response:
        """Save what this run found as a draft of its team, with the run as first evidence: 201. Asked again it answers
        the same with 200; so where the team has a version with these very steps, and the run becomes evidence of it."""
        actor = actor_of(request)
        run = get_or_404(Run.objects.visible_to(actor), what="run", pk=run_id)
        saved = services.recipe_save_from_run(actor=actor, run=run)
        return detail(request, saved.version, status.HTTP_201_CREATED if saved.is_new else status.HTTP_200_OK)
