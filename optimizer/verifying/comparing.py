"""How far the answers of one model lie from another's, on the same inputs. Neither is the truth: nothing is refused.

Per output the centred relative L2 difference of the second from the first, in units of the first's own spread, as
verification measures errors; of integers the share that differs. Outputs of different shapes or kinds are only named.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optimizer.result import OutputNumerics
from optimizer.verifying.numerics import ErrorSum, is_float, places_reason, yardstick

# what two frameworks' float32 of one deep model may differ by, of the spread; two models that differ are far above
ALIKE = 1e-4

Answers = Sequence[Sequence[np.ndarray]]


def compare_answers(
    names: Sequence[str], first: Answers, second: Answers, items: Sequence[int], alike: float = ALIKE
) -> tuple[list[OutputNumerics], list[str]]:
    """One row for each output that can be compared, and a sentence for each that cannot.

    `items`: samples in each input set. A row has `passed` when the difference is at most `alike`.
    """
    counts = sorted({len(answer) for answer in (*first, *second)})
    if len(counts) != 1:
        return [], [f"The answers were not compared: {' or '.join(map(str, counts))} outputs."]
    rows, notes = [], []
    for output in range(counts[0]):
        name = names[output] if len(names) == counts[0] else f"output {output}"
        mine, theirs = [answer[output] for answer in first], [answer[output] for answer in second]
        reason = _why_not(mine, theirs)
        if reason is not None:
            notes.append(f"The answers {name} were not compared: {reason}.")
        elif is_float(mine[0]):
            rows.append(_floats(name, mine, theirs, items, alike))
        else:
            rows.append(_integers(name, mine, theirs, items))
    return rows, notes


def in_words(rows: Sequence[OutputNumerics], notes: Sequence[str]) -> str:
    """One sentence for the summary."""
    tail = ", as far as they can be compared." if notes else "."
    if not rows:
        return "Their answers could not be compared."
    differing = [row for row in rows if not row.passed]
    if not differing:
        return (
            f"Their answers are alike: at most {max(row.error for row in rows):.1e} of an output's spread apart{tail}"
        )
    worst = max(differing, key=lambda row: row.error)
    more = f" (and {len(differing) - 1} more)" if len(differing) > 1 else ""
    return f"Their answers differ: {worst.output} {worst.reason}{more}{tail}"


def _why_not(mine: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> str | None:
    for one, other in zip(mine, theirs, strict=True):
        if one.shape != other.shape:
            return f"shapes {list(one.shape)} and {list(other.shape)}"
        if is_float(one) != is_float(other):
            return f"{one.dtype.name} and {other.dtype.name}"
    return None


def _floats(
    name: str, mine: Sequence[np.ndarray], theirs: Sequence[np.ndarray], items: Sequence[int], alike: float
) -> OutputNumerics:
    unit = yardstick(mine, rows=all(a.ndim and a.shape[0] == count for a, count in zip(mine, items, strict=True)))
    total, reason = ErrorSum(), None
    for one, other in zip(mine, theirs, strict=True):
        total.add(other, one.astype(np.float64))
        reason = reason or places_reason(other, one, one)
    error = total.relative(unit)
    if error > alike:
        reason = reason or f"differs by {error:.2e} of {unit.words}"
    return OutputNumerics(
        output=name,
        dtype=mine[0].dtype.name,
        error=error,
        baseline_error=0.0,
        allowed=alike,
        max_abs_error=total.max_abs,
        samples=sum(items),
        passed=reason is None,
        reason=reason,
        yardstick=unit.kind,
    )


def _integers(
    name: str, mine: Sequence[np.ndarray], theirs: Sequence[np.ndarray], items: Sequence[int]
) -> OutputNumerics:
    places = sum(one.size for one in mine)
    wrong = sum(int((one != other).sum()) for one, other in zip(mine, theirs, strict=True))
    steps = [np.abs(o.astype(np.float64) - m.astype(np.float64)) for m, o in zip(mine, theirs, strict=True) if m.size]
    return OutputNumerics(
        output=name,
        dtype=mine[0].dtype.name,
        error=wrong / places if places else 0.0,
        baseline_error=0.0,
        allowed=0.0,
        max_abs_error=max((float(step.max()) for step in steps), default=0.0),
        samples=sum(items),
        passed=not wrong,
        reason=f"differs in {wrong} of {places} integers" if wrong else None,
        yardstick="places",
    )
