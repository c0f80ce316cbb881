"""JSON bodies of the API, with a bound: DRF's own parser reads a body of any length, whatever Django's settings say."""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from fuseworks.core.errors import PlatformError


class BoundedJSONParser(BaseParser):
    """JSON of at most the view's `max_body_bytes`, or of DATA_UPLOAD_MAX_MEMORY_SIZE where the view has none."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        view = (parser_context or {}).get("view")
        limit_bytes = getattr(view, "max_body_bytes", settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        body = stream.read(limit_bytes + 1)
        if len(body) > limit_bytes:
            raise PlatformError("core:usage:body-too-large", limit_bytes=limit_bytes)
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ParseError(f"this is no JSON: {error}") from error
