"""Compares a candidate's answers with those of the baseline or the reference on fresh inputs, as is done after timing.

Floats must agree in every call. Integers must be equal but for ties, and on fresh inputs nobody names the ties: what is
held against a candidate is how often it differs, over all calls that one Agreement has seen (a screening, a whole
judgement). The ties named in verification say how often rounding may flip an integer of this output; a candidate that
differs more often than that, by more than chance, is refused. So one flip never condemns an output of one integer, and
several do; among thousands of integers a share of some 0.1 % already does. Not for what verification itself asks:
there each tie is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import gammainc

from optimizer.verifying.columns import ColumnSum
from optimizer.verifying.numerics import (
    ErrorSum,
    Rule,
    few_factor,
    is_float,
    places_reason,
    structure_reason,
)
from optimizer.verifying.questions import Truths

Answer = Sequence[np.ndarray]
# one call holds few samples, and the baseline that it is held against is itself off by its own error
FLOAT_FACTOR = 4.0
# no tie among n places still leaves 3/n possible (at 95 %); for few places that says nothing, and 1 % is taken
UNSEEN_TIES, RARE_SHARE = 3.0, 0.01
TIED_SIDES = 2  # rounding may flip either of the two that are compared
PLACES_OF_A_TIE = 2  # a tie within a ranking exchanges two places of one answer
CHANCE = 1e-5  # of refusing what differs at ties alone; a judgement looks some hundred times


@dataclass
class Differences:
    """What was seen of one output's integers so far. `ties`: at least so many, if all differences were ties."""

    calls: int = 0
    places: int = 0
    wrong: int = 0
    ties: int = 0

    def add(self, mine: np.ndarray, expected: np.ndarray) -> None:
        wrong = int((mine != expected).sum())
        self.calls += 1
        self.places += expected.size
        self.wrong += wrong
        self.ties += -(-wrong // PLACES_OF_A_TIE)

    def too_many(self, tie_share: float) -> bool:
        """Whether so many ties would come by chance less often than CHANCE, were `tie_share` of all places ties."""
        return self.ties > 0 and float(gammainc(self.ties, tie_share * self.places)) < CHANCE


@dataclass
class Agreement:
    """Call it with `(answer, expected)`; the answer is the reason why they do not agree, or None. One per candidate and
    measurement: it remembers the integers that differed."""

    truths: Truths
    rule: Rule
    seen: dict[int, Differences] = field(default_factory=dict)

    def __call__(self, answer: Answer, expected: Answer) -> str | None:
        if len(answer) != len(expected):
            return f"it gives {len(answer)} outputs where the original gives {len(expected)}"
        for output, (mine, base) in enumerate(zip(answer, expected, strict=True)):
            disagreement = self._floats if is_float(base) else self._integers
            reason = structure_reason(mine, base) or disagreement(output, mine, base)
            if reason is not None:
                return f"{self.truths.names[output]} {reason}"
        return None

    def _integers(self, output: int, mine: np.ndarray, base: np.ndarray) -> str | None:
        seen = self.seen.setdefault(output, Differences())
        seen.add(mine, base)
        if not seen.too_many(tie_share(self.truths, self.rule, output)):
            return None
        return (
            f"differs in {seen.wrong} of {seen.places} integers over {seen.calls} calls, more often than ties explain"
        )

    def _floats(self, output: int, mine: np.ndarray, base: np.ndarray) -> str | None:
        places = places_reason(mine, base, base)
        if places is not None:
            return places
        total = ErrorSum()
        total.add(mine, base)
        unit = self.truths.yardsticks[output]
        allowed = FLOAT_FACTOR * self.rule.allowed(
            self.truths.baseline_errors[output], "edge", few_factor(total.elements)
        )
        error = total.relative(unit)
        if error > allowed:
            return f"is off by {error:.2e} of {unit.words}, allowed {allowed:.2e}"
        columns = self.truths.columns_at(output)
        if columns is None:
            return None
        by_column = ColumnSum(columns)
        by_column.add(mine, base)
        return by_column.worst(self.rule, "edge", FLOAT_FACTOR).reason


def tie_share(truths: Truths, rule: Rule, output: int) -> float:
    """How large a share of an output's integers rounding may flip, from the ties that verification named."""
    ties = sum(int(question.ties[output].sum()) for question in truths.pooled)
    places = max(1, sum(question.truth[output].size for question in truths.pooled))
    share = TIED_SIDES * ties / places + min(UNSEEN_TIES / places, RARE_SHARE)
    # a lower precision may flip as large a share as its bound, in verification too
    return max(share, rule.bound or 0.0)
