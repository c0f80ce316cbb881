"""Matches every pass against the graph. A pass that fails, crashes or hangs is left out and named; the others go on.

All passes run in one child, which is quick and usual. Only when that child fails is the guilty pass looked for: by the
name in the error, else by halving the list. Not for a graph that cannot be read: no pass is to blame for that.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from optimizer.coordinator.answer import Answer
from optimizer.coordinator.context import BUILD_TIMEOUT_S, RunContext
from optimizer.coordinator.workshop import Workshop
from optimizer.errors import FuseworksError
from optimizer.result import Rewrite
from optimizer.spec import PassStep

ONE_TRY_SHARE, ALL_TRIES_SHARE = 0.25, 0.4  # of the budget
LEAST_S = 120.0
MOST_GUILTY = 3  # where more fail, it is not the passes
NAMES_TIMEOUT_S = 120.0


def match_passes(context: RunContext, shop: Workshop, answer: Answer) -> list[Rewrite]:
    """What every pass did to the graph, without those that failed (`answer.notes` names them). Raises FuseworksError
    only for what no pass can be guilty of."""
    try:
        return shop.rewrite(None, timeout_s=_one_try_s(context)).rewrites
    except FuseworksError as error:
        if not _may_be_a_pass(error):
            raise
        return _without_the_guilty(context, shop, answer, error)


def _without_the_guilty(context: RunContext, shop: Workshop, answer: Answer, error: FuseworksError) -> list[Rewrite]:
    search = _Search(context, shop)
    try:
        names = pass_names(context, shop)
    except FuseworksError as second:
        answer.note(context, f"No pass was matched against the graph: {error.message} ({second.message})")
        return []
    for _ in range(MOST_GUILTY):
        guilty = _named(error, names) or search.first_failing(names)
        if guilty is None:
            break
        # a child's own remedy speaks of the user's code, which has no part in this
        answer.note(context, f"The pass {guilty} is left out of this run: {error.message} Please report it.")
        names.remove(guilty)
        tried = search.rewrites(names)
        if not isinstance(tried, FuseworksError):
            return tried
        error = tried
    answer.note(context, f"No rewrite is proposed, the engines go on without: {error.message}")
    return []


class _Search:
    """Tries lists of passes until its time is over."""

    def __init__(self, context: RunContext, shop: Workshop) -> None:
        self.context, self.shop = context, shop
        self.deadline = time.monotonic() + max(LEAST_S, ALL_TRIES_SHARE * context.spec.policy.budget_s)

    def rewrites(self, names: Sequence[str]) -> list[Rewrite] | FuseworksError:
        steps = tuple(PassStep(pass_=name) for name in names)
        try:
            return self.shop.rewrite(steps, timeout_s=_one_try_s(self.context)).rewrites
        except FuseworksError as error:
            if not _may_be_a_pass(error):
                raise
            return error

    def first_failing(self, names: Sequence[str]) -> str | None:
        """The last pass of the shortest list from the beginning that fails; None when there is no time to find it."""
        good, bad = 0, len(names)
        while bad - good > 1:
            if time.monotonic() > self.deadline:
                return None
            middle = (good + bad) // 2
            tried = self.rewrites(names[:middle])
            if not isinstance(tried, FuseworksError):
                good = middle
                continue
            named = _named(tried, names)
            if named is not None:
                return named
            bad = middle
        return names[bad - 1] if bad else None


def pass_names(context: RunContext, shop: Workshop) -> list[str]:
    """In standard order. Asked of a child: the passes import torch. Raises FuseworksError."""
    with context.child("rewrite") as child:
        reply = child.call("optimizing.passes", timeout_s=NAMES_TIMEOUT_S, format=shop.captured.format)
    return [str(name) for name in reply.fields.get("passes") or []]


def _may_be_a_pass(error: FuseworksError) -> bool:
    return error.id.startswith(("optimizing:ours:", "child:"))


def _named(error: FuseworksError, names: Sequence[str]) -> str | None:
    name = error.context.get("name")
    return name if error.id.startswith("optimizing:ours:") and name in names else None


def _one_try_s(context: RunContext) -> float:
    return min(BUILD_TIMEOUT_S, max(LEAST_S, ONE_TRY_SHARE * context.spec.policy.budget_s))
