"""Which other settings of the process are worth trying on the best candidate: threads, how they wait, where they run.

Proposed by what the profile measured of the original, decided by measuring the candidate. Pure: it starts nothing. The
allocator is not among them: it is set for all candidates alike, from the beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from optimizer.result import Candidate
from optimizer.spec import BackendStep, RuntimeSettings, RuntimeStep

# With what an engine fuses there is less to share out than in the original: fewer threads may win where they did not.
WORTH_FEWER = 1.5
OPENMP = frozenset({"eager", "inductor", "aot_inductor", "torchao"})  # engines whose threads are torch's


class Variant(NamedTuple):
    """`label` is added to a candidate's name."""

    settings: RuntimeSettings
    label: str
    why: str


def variants(
    settings: RuntimeSettings, *, threads: int, threads_ms: Mapping[int, float], backend: str, threads_fixed: bool
) -> list[Variant]:
    """`threads`: of the run; `threads_ms`: a call of the original by number of threads, where that was measured;
    `threads_fixed`: the policy names a number."""
    found = []
    all_ms = threads_ms.get(threads)
    for count in [] if threads_fixed or all_ms is None else sorted(threads_ms):
        if count < threads and threads_ms[count] <= WORTH_FEWER * (all_ms or 0.0):
            told = f"the original takes {threads_ms[count]:.2f} ms on {_threads(count)}, {all_ms:.2f} ms on {threads}"
            found.append(Variant(settings.model_copy(update={"threads": count}), _threads(count), told))
    if threads > 1 and backend in OPENMP:
        # never `active`: threads that spin for ever take the cores from everything else on the host
        sleeping = settings.model_copy(update={"thread_waiting": "passive"})
        bound = settings.model_copy(update={"thread_binding": "cores"})
        found.append(Variant(sleeping, "sleeping threads", "a thread that sleeps leaves the core to one that works"))
        found.append(Variant(bound, "bound threads", "a thread that stays on its core keeps what is in its caches"))
    return found


def under(candidate: Candidate, variant: Variant) -> Candidate:
    """The same plan in other settings."""
    rest = [step for step in candidate.steps if not isinstance(step, RuntimeStep)]
    return candidate.model_copy(
        update={
            "name": f"{candidate.name} @ {variant.label}",
            "steps": [RuntimeStep(runtime=variant.settings), *rest],
            "why": variant.why,
        }
    )


def backend_of(candidate: Candidate) -> str:
    return next((step.backend for step in candidate.steps if isinstance(step, BackendStep)), "")


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"
