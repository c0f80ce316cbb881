"""Steps as a recipe keeps them: with every option of the backend written out, so that a later default changes nothing.

Passes' options need no filling in here: what a pass did is reported with all of its options.
"""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.compiling.base import resolve
from optimizer.spec import BackendStep, Step


def steps_in_full(steps: Sequence[Step]) -> list[Step]:
    """Raises FuseworksError `compiling:user:unknown-backend`, `bad-options`."""
    return [_in_full(step) if isinstance(step, BackendStep) else step for step in steps]


def _in_full(step: BackendStep) -> BackendStep:
    _, options = resolve(step.backend, step.options)
    return step.model_copy(update={"options": options.model_dump(mode="json")})
