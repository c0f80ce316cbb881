"""The catalog's query out of an address: the same parameters on the page and in the API."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from fuseworks.core.errors import PlatformError
from fuseworks.recipes.models import RecipeState
from fuseworks.recipes.selectors import SORTS, CatalogQuery

ANY = "any"


def query_of(parameters: Mapping[str, str]) -> CatalogQuery:
    """Raises PlatformError (`core:usage:invalid`) for a gain that is no number, an unknown state or order."""
    gain, state, sort = parameters.get("min_gain", ""), parameters.get("state", ""), parameters.get("sort", "")
    try:
        min_gain = float(gain) if gain else None
    except ValueError as error:
        text = format_lazy(_("min_gain is a number such as 1.2, not {given}"), given=repr(gain))
        raise PlatformError("core:usage:invalid", place="min_gain", text=text) from error
    if state and state != ANY and state not in RecipeState.values:
        text = format_lazy(_("no recipe is in a state {given}"), given=repr(state))
        raise PlatformError("core:usage:invalid", place="state", text=text)
    if sort and sort not in SORTS:
        text = format_lazy(_("sort is one of {choices}"), choices=", ".join(SORTS))
        raise PlatformError("core:usage:invalid", place="sort", text=text)
    return CatalogQuery(
        q=parameters.get("q", "").strip()[:200],
        target=parameters.get("target", ""),
        mode=parameters.get("mode", ""),
        pass_=parameters.get("pass", ""),
        unit=parameters.get("unit", ""),
        backend=parameters.get("backend", ""),
        state="" if state == ANY else state or RecipeState.PUBLISHED,
        min_gain=min_gain,
        sort=sort or "newest",
    )
