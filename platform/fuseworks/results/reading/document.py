"""From a stored document back to `optimizer.result.Result`."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from fuseworks.core.errors import PlatformError
from fuseworks.results import errors  # noqa: F401  (importing registers)
from optimizer.result import Result


def parse(document: dict[str, Any]) -> Result:
    """Raises PlatformError `results:ours:unreadable` for a document of another schema."""
    try:
        return Result.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        raise PlatformError("results:ours:unreadable", text=f"{where}: {first['msg']}") from error
