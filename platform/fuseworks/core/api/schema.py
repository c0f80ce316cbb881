"""`GET /api/v1/schema/`: the API as an OpenAPI 3.1 document in JSON. Public: it holds nothing but shapes and texts."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiJsonRenderer2
from drf_spectacular.views import SpectacularAPIView
from rest_framework.permissions import AllowAny

from fuseworks.core.discovery import endpoint


@endpoint("schema/")
class Schema(SpectacularAPIView):
    renderer_classes: ClassVar[list[Any]] = [OpenApiJsonRenderer2, OpenApiJsonRenderer]  # type: ignore[misc]
    authentication_classes: ClassVar[list[Any]] = []  # type: ignore[misc]
    permission_classes: ClassVar[list[Any]] = [AllowAny]  # type: ignore[misc]
