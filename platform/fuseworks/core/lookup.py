"""Gets one row out of a query set that is already scoped to the reader. Not for rows that may be missing."""

from __future__ import annotations

from typing import Any, TypeVar

from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db import models

from fuseworks.core.errors import PlatformError

Row = TypeVar("Row", bound=models.Model)


def get_or_404(queryset: models.QuerySet[Row], what: str = "thing", **filter: Any) -> Row:
    """The one row that `filter` names. Raises PlatformError (`core:usage:not-found`) when there is none: a row that the
    reader may not see looks like one that never was."""
    try:
        return queryset.get(**filter)
    except (ObjectDoesNotExist, ValidationError) as error:  # ValidationError: an id that is no UUID
        raise PlatformError("core:usage:not-found", what=what) from error
