"""Which layers go to a lower precision: those that save most for the error they cause, within the bound. Pure.

Errors of several layers add up in no simple way, so what bounds the choice is the error of all chosen ones together,
measured by whoever calls: the largest beginning of the order that keeps the bound, found by halving.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

# Of what verification allows: there other samples are drawn, and an engine rounds in other places.
MARGIN = 0.7
# A layer alone is timed to some per cent, and converting its input costs more inside a model than alone.
WORTH = 0.95


@dataclass(frozen=True)
class Option:
    """One layer in a lower precision: its times alone, and the share of what is allowed that its error takes; None
    where that was not measured, and then it is not chosen."""

    layer: int
    full_ms: float
    low_ms: float
    share: float | None = None

    @property
    def saved_ms(self) -> float:
        return self.full_ms - self.low_ms

    @property
    def worth(self) -> bool:
        return self.low_ms < WORTH * self.full_ms

    @property
    def even(self) -> bool:
        """Neither gains nor loses more than timing tells."""
        return not self.worth and WORTH * self.low_ms <= self.full_ms


@dataclass(frozen=True)
class Choice:
    """`share`: what the error of all chosen layers together takes of what is allowed; 0 where none is chosen."""

    layers: frozenset[int]
    share: float


Together = Callable[[frozenset[int]], float]


def every_one(options: Sequence[Option], together: Together) -> Choice | None:
    """All that gain, where they keep the bound together: then no layer's own error has to be known."""
    worth = frozenset(option.layer for option in options if option.worth)
    share = together(worth) if worth else 0.0
    return Choice(worth, share) if share <= MARGIN else None


def with_company(choice: Choice, options: Sequence[Option], together: Together) -> Choice:
    """With the layers that are as fast in either precision, where the bound allows it: between others in the lower one
    they need no conversion."""
    joined = choice.layers | {option.layer for option in options if option.even}
    if not choice.layers or joined == choice.layers:
        return choice
    share = together(joined)
    return Choice(joined, share) if share <= MARGIN else choice


def choose(options: Sequence[Option], together: Together) -> Choice:
    """`together`: the share of what is allowed that the error of several layers takes; measured, so asked seldom."""
    worth = [
        (o.share**2 / o.saved_ms, o.layer) for o in options if o.worth and o.share is not None and o.share <= MARGIN
    ]
    order = [layer for _, layer in sorted(worth)]
    least, most, share = 0, len(order), 0.0
    while least < most:
        # the whole first: where all fit, one question is enough
        middle = most if (least, most) == (0, len(order)) else (least + most + 1) // 2
        asked = together(frozenset(order[:middle]))
        if asked <= MARGIN:
            least, share = middle, asked
        else:
            most = middle - 1
    return Choice(frozenset(order[:least]), share)


def why(option: Option, error: float | None, chosen: bool, name: str) -> str:
    """In one sentence, for the one who reads the result. `name`: of the lower precision."""
    times = f"{option.low_ms:.3f} ms in {name}, {option.full_ms:.3f} ms in float32"
    if not option.worth:
        return f"it goes with its neighbours: {times}" if chosen else f"it would gain too little: {times}"
    if chosen and error is None:
        return f"{times}; all that gain keep the bound together"
    if option.share is None or error is None:
        return f"there was no time to measure its error; {times}"
    if option.share > MARGIN:
        share = f"{option.share:.0%} of what is allowed, where {MARGIN:.0%} at most are taken"
        return f"alone it would cost {error:.1e} at the outputs, {share}"
    if chosen:
        return f"{times}, for an error of {error:.1e} at the outputs"
    return f"the bound is used up by layers that save more for their error; {times}, error {error:.1e}"
