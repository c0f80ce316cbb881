"""How a finding's remedy is named, and which steps of a plan are that remedy. Pure; steps are as recipes write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Document = dict[str, Any]


def remedy_of(mended_by: Sequence[Document]) -> str:
    """`pass merge_embedding_tables`, `setting threads`; several joined by ` + `, in an order of their own."""
    names = [f"pass {step['pass']}" for step in mended_by if "pass" in step]
    names += [f"setting {key}" for step in mended_by for key in step.get("runtime", {})]
    return " + ".join(sorted(names))


def settings_of(steps: Sequence[Document]) -> Document:
    """What a plan sets of its process, defaults left out."""
    return next((dict(step["runtime"]) for step in steps if "runtime" in step), {})


def is_remedy(steps: Sequence[Document], mended_by: Sequence[Document]) -> bool:
    """Whether `steps` by themselves are what mends it: these passes and no other, these settings or some of them.

    A pass's options do not count: a plan writes all of them out, a finding none.
    """
    passes = {step["pass"] for step in steps if "pass" in step}
    set_, wanted = settings_of(steps), settings_of(mended_by)
    others = [step for step in steps if "pass" not in step and "runtime" not in step]
    if others or not (passes or set_) or passes != {step["pass"] for step in mended_by if "pass" in step}:
        return False
    return bool(set_) == bool(wanted) and all(wanted.get(key) == value for key, value in set_.items())


def difference(whole: Sequence[Document], without: Sequence[Document]) -> list[Document] | None:
    """The steps that `whole` has beyond `without`; None where that is no part of it."""
    mine, others = settings_of(whole), settings_of(without)
    if any(mine.get(key) != value for key, value in others.items()):
        return None
    rest = [step for step in without if "runtime" not in step]
    extra = [step for step in whole if "runtime" not in step]
    for step in rest:
        if step not in extra:
            return None
        extra.remove(step)
    added = {key: value for key, value in mine.items() if key not in others}
    return [*([{"runtime": added}] if added else []), *extra]
