"""Between a recipe's text and its rows: the optimizer's own schema and digest, told as the platform's errors."""

from __future__ import annotations

import hashlib
from typing import Any

import rfc8785

import fuseworks.recipes.errors  # noqa: F401 -- files the error texts
from fuseworks.core.errors import PlatformError
from fuseworks.recipes.models import RecipeVersion
from optimizer.errors import FuseworksError
from optimizer.recipe.document import Recipe, as_document, digest, dump, load_recipe, parse
from optimizer.spec import BackendStep, PassStep


def read(given: str | dict[str, Any]) -> Recipe:
    """Raises PlatformError (`recipes:user:invalid-document`), `place` naming the field."""
    try:
        # with the newline it is a text and never the path of a file on this host
        return load_recipe(given + "\n") if isinstance(given, str) else parse(given)
    except FuseworksError as error:
        raise PlatformError(
            "recipes:user:invalid-document", place=error.place, text=error.message, remedy=error.remedy, cause=error
        ) from error


def yaml_of(version: RecipeVersion) -> str:
    return dump(read(version.document))


def fields_of(recipe: Recipe) -> dict[str, Any]:
    """The columns of a RecipeVersion that repeat its document, so that lists can filter by them."""
    backend = next(step.backend for step in recipe.steps if isinstance(step, BackendStep))
    metadata = recipe.metadata
    return {
        "version": metadata.version,
        "document": as_document(recipe),
        "digest": digest(recipe),
        "plan_digest": plan_digest(as_document(recipe)),
        "title": metadata.title or metadata.name,
        "summary": metadata.summary,
        "tags": list(metadata.tags),
        "target_kind": recipe.applies_to.target.kind,
        "mode": recipe.applies_to.mode.value,
        "passes": [step.pass_ for step in recipe.steps if isinstance(step, PassStep)],
        "backend": backend,
    }


def plan_digest(document: dict[str, Any]) -> str:
    """SHA-256 of all but the metadata: two documents with the same do the same, whatever they are called."""
    plan = {key: value for key, value in document.items() if key != "metadata"}
    return hashlib.sha256(rfc8785.dumps(plan)).hexdigest()


def with_metadata(document: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**document, "metadata": {**document["metadata"], **changes}}
