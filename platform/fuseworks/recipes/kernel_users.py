"""Which recipes use a kernel of the library: those whose steps fuse by it, as far as the reader may see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fuseworks.accounts.permissions import Actor
from fuseworks.recipes.models import RecipeVersion
from fuseworks.recipes.selectors import CatalogQuery, catalog

PASS = "fuse_operations"


@dataclass(frozen=True)
class User:
    """`names_it`: the step names this kernel among others or alone; else it looks for every kernel of the library."""

    version: RecipeVersion
    names_it: bool


def recipes_with(*, actor: Actor, kernel: str) -> list[User]:
    """Published ones, the newest version of each; those that name the kernel first."""
    users = []
    for version in catalog(actor=actor, query=CatalogQuery(pass_=PASS)):
        chosen = [_kernels(step) for step in _steps(version)]
        if any(names is not None and kernel in names for names in chosen):
            users.append(User(version, names_it=True))
        elif None in chosen:
            users.append(User(version, names_it=False))
    return sorted(users, key=lambda user: not user.names_it)


def _steps(version: RecipeVersion) -> list[dict[str, Any]]:
    return [step for step in version.document["steps"] if step.get("pass") == PASS]


def _kernels(step: dict[str, Any]) -> list[str] | None:
    """The option of the pass; None, its default, is the whole library."""
    found: list[str] | None = step.get("options", {}).get("kernels")
    return found
