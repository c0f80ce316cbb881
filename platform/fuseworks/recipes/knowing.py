"""Whether workers know what a recipe's steps name. A draft may be ahead of them; what is published may not."""

from __future__ import annotations

from fuseworks.core.errors import PlatformError
from fuseworks.fleet.known import known, nearest
from fuseworks.recipes.models import RecipeVersion


def unknown_step(version: RecipeVersion) -> PlatformError | None:
    """The first pass or backend that no worker's manifest lists; None where no manifest is known."""
    there = known()
    for name in there.unknown_passes(version.passes):
        return PlatformError("recipes:usage:unknown-pass", name=name, nearest=nearest(name, there.passes))
    for name in there.unknown_backends([version.backend]):
        return PlatformError("recipes:usage:unknown-backend", name=name, nearest=nearest(name, there.backends))
    return None
