"""JSON bodies of the API, with a bound: DRF's own parser reads a body of any length, whatever Django's settings say."""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from fuseworks.core.errors import PlatformError
from fuseworks.core.numbers import whole_number


class BoundedJSONParser(BaseParser):
    """JSON of at most the view's `max_body_bytes`, or of DATA_UPLOAD_MAX_MEMORY_SIZE where the view has none."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        context = parser_context or {}
        limit_bytes = getattr(context.get("view"), "max_body_bytes", settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        announced = context["request"].META.get("CONTENT_LENGTH") or "" if "request" in context else ""
        is_too_large = (whole_number(announced) or 0) > limit_bytes  # and is not read at all
        body = b"" if is_too_large else stream.read(limit_bytes + 1)
        if is_too_large or len(body) > limit_bytes:
            raise PlatformError("core:usage:body-too-large", limit_bytes=limit_bytes)
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ParseError(f"this is no JSON: {error}") from error
