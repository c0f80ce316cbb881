"""`models/<uuid>/`: one model; its name and description may be changed."""

from __future__ import annotations

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts.permissions import Actor, actor_of
from fuseworks.core.bodies import Body
from fuseworks.core.discovery import endpoint
from fuseworks.core.lookup import get_or_404
from fuseworks.registry import selectors
from fuseworks.registry.api.serializers import ModelSerializer
from fuseworks.registry.models import Family
from fuseworks.registry.services import model_update


class ModelChangeSerializer(Body):
    name = serializers.CharField(max_length=80, required=False)
    description = serializers.CharField(max_length=4000, required=False, allow_blank=True)
    family = serializers.ChoiceField(choices=Family.choices, required=False)


@endpoint("models/<uuid:model_id>/", name="model-detail")
class ModelDetail(APIView):
    @extend_schema(responses=ModelSerializer)
    def get(self, request: Any, model_id: uuid.UUID) -> Response:
        """One model."""
        return self._shown(request, actor_of(request), model_id)

    @extend_schema(request=ModelChangeSerializer, responses=ModelSerializer)
    def patch(self, request: Any, model_id: uuid.UUID) -> Response:
        """Change its name or description."""
        actor = actor_of(request)
        model = selectors.model_get(actor=actor, model_id=model_id)
        given = ModelChangeSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        model_update(actor=actor, model=model, **given.validated_data)
        return self._shown(request, actor, model_id)

    def _shown(self, request: Any, actor: Actor, model_id: uuid.UUID) -> Response:
        model = get_or_404(selectors.models_list(actor=actor, kind=None), what="model", pk=model_id)
        return Response(ModelSerializer(model, context={"request": request}).data)
