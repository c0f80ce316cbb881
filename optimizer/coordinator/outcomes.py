"""What candidates gained on graphs that this host has seen: it decides the order in which they are tried, nothing else.

A line for each run: which operations the graph has and how often, and the speedup of each plan. No name, no weight and
no source of a model. Figures of a stranger's upload can put a candidate last and never take it out; which is deployed
is measured anew every time.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from optimizer.benchmarking.summary import HELD_BACK_SPEEDUP
from optimizer.optimizing.planner import has_passes
from optimizer.result import Candidate, Evaluation, EvaluationStatus, Finding

MOST_LINES = 400
MOST_OPERATIONS, MOST_PLANS = 300, 60
ALIKE = 0.6  # of a graph's operations
SAVED_SHARE = 0.5  # of the time that goes into what a pass rewrites; a guess that only decides an order


class Seen(BaseModel):
    """One run."""

    model_config = ConfigDict(extra="ignore")

    format: str
    target: str
    threads: int
    mode: str
    operations: dict[str, int] = Field(max_length=MOST_OPERATIONS)
    speedups: dict[str, float] = Field(max_length=MOST_PLANS)


class Expected(BaseModel):
    """What a plan gave on graphs that are alike: the mean, by how alike they are; of how many; and the most alike."""

    speedup: float
    graphs: int
    alike: float

    def __str__(self) -> str:
        graphs = "a graph" if self.graphs == 1 else f"{self.graphs} graphs"
        return f"{self.speedup:.2f}x on {graphs} seen on this host, {self.alike:.0%} alike"


@dataclass(frozen=True)
class Outcomes:
    """The store, seen from one run. `file` is None where nothing is remembered."""

    file: Path | None
    format: str
    target: str
    threads: int
    mode: str
    operations: Mapping[str, int]

    def remember(self, evaluations: Mapping[str, Evaluation]) -> None:
        """The speedups of plans whose names stand for steps that another graph may have. What is too good to be
        believed at once counts as no better than that. A full disk costs nothing."""
        speedups = {
            name: round(min(evaluation.screened_speedup, HELD_BACK_SPEEDUP), 4)
            for name, evaluation in evaluations.items()
            if evaluation.status == EvaluationStatus.PASSED
            and evaluation.screened_speedup
            and " - " not in name
            and " @ " not in name
        }
        if self.file is None or not speedups:
            return
        try:
            seen = Seen(
                format=self.format,
                target=self.target,
                threads=self.threads,
                mode=self.mode,
                operations=dict(self.operations),
                speedups=speedups,
            )
        except ValidationError:
            return  # a graph of more kinds of operations than any is told by them
        with contextlib.suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with open(self.file, "a+") as store:
                fcntl.flock(store, fcntl.LOCK_EX)
                store.seek(0)
                lines = [*store.read().splitlines(), seen.model_dump_json()][-MOST_LINES:]
                store.truncate(0)
                store.write("\n".join(lines) + "\n")

    def expected(self) -> dict[str, Expected]:
        """By the plan's name."""
        found: dict[str, list[tuple[float, float]]] = {}
        for alike, seen in self._alike():
            for name, speedup in seen.speedups.items():
                if speedup > 0:
                    found.setdefault(name, []).append((alike, math.log(speedup)))
        return {
            name: Expected(
                speedup=math.exp(sum(a * log for a, log in pairs) / sum(a for a, _ in pairs)),
                graphs=len(pairs),
                alike=max(a for a, _ in pairs),
            )
            for name, pairs in found.items()
        }

    def _alike(self) -> list[tuple[float, Seen]]:
        own = (self.format, self.target, self.threads, self.mode)
        every = [(likeness(self.operations, seen.operations), seen) for seen in self._read()]
        return [
            (alike, seen)
            for alike, seen in every
            if alike >= ALIKE and (seen.format, seen.target, seen.threads, seen.mode) == own
        ]

    def _read(self) -> list[Seen]:
        """A line that cannot be read is as good as none."""
        found = []
        if self.file is not None:
            with contextlib.suppress(OSError, UnicodeDecodeError):
                for line in self.file.read_text().splitlines()[-MOST_LINES:]:
                    with contextlib.suppress(ValidationError):
                        found.append(Seen.model_validate_json(line))
        return found


def likeness(a: Mapping[str, int], b: Mapping[str, int]) -> float:
    """1 for equal counts of equal operations, 0 for none in common."""
    names = {*a, *b}
    most = sum(max(a.get(name, 0), b.get(name, 0)) for name in names)
    return sum(min(a.get(name, 0), b.get(name, 0)) for name in names) / most if most else 0.0


def most_promising_first(
    candidates: Sequence[Candidate], expected: Mapping[str, Expected], findings: Sequence[Finding]
) -> list[Candidate]:
    """By what they gave on graphs alike; a rewrite that nobody has seen yet by the share of the time that goes into
    what it rewrites; anything else as if it gained nothing. As they came where nothing tells them apart."""
    share = min(0.9, sum(_share(finding) for finding in findings))

    def promise(candidate: Candidate) -> float:
        known = expected.get(candidate.name)
        if known is not None:
            return known.speedup
        return 1.0 / (1.0 - SAVED_SHARE * share) if has_passes(candidate) else 1.0

    return [_told(one, expected.get(one.name)) for one in sorted(candidates, key=lambda one: -promise(one))]


def _share(finding: Finding) -> float:
    share: Any = finding.evidence.get("share_of_time")
    return float(share) if isinstance(share, (int, float)) else 0.0


def _told(candidate: Candidate, known: Expected | None) -> Candidate:
    if known is None:
        return candidate
    return candidate.model_copy(update={"why": "; ".join([*filter(None, [candidate.why]), str(known)])})
