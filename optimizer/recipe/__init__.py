"""Recipes: the document, its identity, how one is made from a winner, and whether it applies to a model here.

A recipe says what to do and when; what came of it is evidence and lives beside it, never in it. No torch in here.
"""

from optimizer.recipe.document import (
    Accept,
    AppliesTo,
    GraphCondition,
    GraphPrecondition,
    Metadata,
    Recipe,
    Target,
    as_document,
    digest,
    dump,
    json_schema,
    load_recipe,
)
from optimizer.recipe.matching import Machine, check_graph, check_target, recipe_from_candidate

__all__ = [
    "Accept",
    "AppliesTo",
    "GraphCondition",
    "GraphPrecondition",
    "Machine",
    "Metadata",
    "Recipe",
    "Target",
    "as_document",
    "check_graph",
    "check_target",
    "digest",
    "dump",
    "json_schema",
    "load_recipe",
    "recipe_from_candidate",
]
