"""Bursts: one contender answers fresh inputs call after call, while all the others are stopped.

The child's clock times each call; the coordinator's clock bounds each burst from outside. A burst whose calls do not
add up to what was seen is refused; a contender that is refused too often in one round is out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

import optimizer.benchmarking.errors  # noqa: F401  (fills the catalogue)
from optimizer.benchmarking.allowance import cpu_ns
from optimizer.benchmarking.gauges import own_wait_ns
from optimizer.benchmarking.load import busy, cores
from optimizer.errors import FuseworksError
from optimizer.sandbox import Child, Reply

CLOCK_SLACK_NS, CLOCK_SHARE = 5_000_000, 0.03
READ_SLACK_NS, READ_NS_PER_BYTE = 1_000_000, 4.0  # of one answer: some copies, each into new pages
MAX_REFUSALS, MAX_REFUSALS_BUSY = 5, 60
REFUSAL_PAUSE_S, LONGEST_PAUSE_S = 0.05, 0.4
BURST_S = 0.06
MIN_CALLS, MAX_CALLS = 2, 48
MAX_BURST_BYTES = 64 << 20
BURSTS_S, LEAST_ROUNDS = 1.2, 8  # of one contender in a set: slow models have fewer rounds
WARM_CALLS = 1
WARM_UP_S = 1.2
TIMEOUT_S = 120.0

InputSet = list[np.ndarray]
Draw = Callable[[], InputSet]


class Loaded(Protocol):
    """A child with a contender in it. The coordinator's own class may hold more."""

    @property
    def child(self) -> Child: ...
    @property
    def load_s(self) -> float: ...


class Refused(Exception):
    """A burst whose times do not add up. It leaves no sample, and its inputs are spent: the child has seen them."""

    def __init__(self, inside_ns: int, outside_ns: int) -> None:
        super().__init__(f"{inside_ns} ns inside, {outside_ns} ns outside")
        self.inside_ns, self.outside_ns = inside_ns, outside_ns


@dataclass
class Burst:
    """One burst as it was accepted. Times in nanoseconds."""

    calls_ns: np.ndarray
    outside_ns: int
    page_faults: int
    wait_ns: int | None
    device_ns: np.ndarray | None = None
    own_wait_ns: int = 0
    cpu_ns: int | None = None
    read_ns: int = 0

    @property
    def mean_ns(self) -> float:
        return float(self.calls_ns.mean())

    @property
    def gap_ns(self) -> int:
        """What passed outside of the calls at most: the way there and back, and the coordinator's wait for a core."""
        return self.outside_ns - int(self.calls_ns.sum()) - self.read_ns

    @property
    def least_gap_ns(self) -> int:
        """The same if all of that wait lay outside of the calls. It may lie beside them: an engine whose threads spin
        on every core keeps the coordinator waiting while the burst runs already, and this is then below zero."""
        return self.gap_ns - self.own_wait_ns


@dataclass
class Entrant:
    """One contender's process within one set, and all that was seen of it."""

    name: str
    child: Child
    load_s: float = 0.0
    base_rss_bytes: int | None = None
    median_ns: int = 0
    first_ns: int = 0
    clock_ns: int = 0
    stable: bool = False
    in_sequence: bool = False  # each call goes on from the one before: what the last one answers depends on all
    refusals: int = 0
    bursts: list[Burst] = field(default_factory=list)
    peak_rss_bytes: int | None = None
    allocator_peak_bytes: int | None = None
    threads: int | None = None


def clock_reason(inside_ns: int, outside_ns: int, own_wait: int = 0) -> str | None:
    """Why the child's times cannot be believed: they must add up to what was seen within 5 ms + 3 %.

    `own_wait`: nanoseconds for which the coordinator itself waited for a core, which are no fault of the child.
    """
    slack = CLOCK_SLACK_NS + CLOCK_SHARE * outside_ns
    if not -slack <= outside_ns - inside_ns <= slack + own_wait:
        return f"{inside_ns / 1e6:.1f} ms inside, {outside_ns / 1e6:.1f} ms outside"
    return None


def warm_up(entrant: Entrant, draw: Draw, max_s: float = WARM_UP_S) -> None:
    """Calls on a few staged inputs until stable, or until `max_s` is over. The child must be running."""
    sets = [draw() for _ in range(MIN_CALLS)]
    staged = entrant.child.call("benchmarking.stage", _flat(sets), timeout_s=TIMEOUT_S, calls=len(sets)).fields
    entrant.in_sequence = staged.get("in_sequence") is True
    fields = entrant.child.call("benchmarking.warm_up", timeout_s=TIMEOUT_S + max_s, max_s=max_s).fields
    entrant.median_ns = max(1, _count(fields, "median_ns"))
    entrant.first_ns, entrant.clock_ns = _count(fields, "first_ns"), _count(fields, "clock_ns")
    entrant.stable = fields.get("stable") is True


def calls_per_burst(entrants: list[Entrant], set_bytes: int) -> int:
    """So many calls that the slowest contender's burst lasts some 60 ms; all contenders run as many."""
    slowest = max(entrant.median_ns for entrant in entrants)
    fitting = max(MIN_CALLS, MAX_BURST_BYTES // max(set_bytes, 1))
    return int(min(max(MIN_CALLS, round(BURST_S * 1e9 / slowest)), MAX_CALLS, fitting))


def fitting_rounds(rounds: int, entrants: list[Entrant], calls: int) -> int:
    """As many of `rounds` as the slowest contender's bursts of `calls` calls leave room for, and 8 at least."""
    burst_s = calls * max(entrant.median_ns for entrant in entrants) / 1e9
    return min(rounds, max(LEAST_ROUNDS, int(BURSTS_S / burst_s)))


def try_burst(entrant: Entrant, draw: Draw, sets: list[InputSet], read: Sequence[int] = ()) -> Burst:
    """One burst on `sets`, which are staged outside of the timed window. The child must be running. `read`: calls whose
    answers the child reads at once, for `answers`.

    Raises Refused when its times do not add up; ChildFailed; FuseworksError (`child:user:bad-answer`).
    """
    child = entrant.child
    warm = [draw() for _ in range(WARM_CALLS)]
    child.call("benchmarking.stage", _flat([*sets, *warm]), timeout_s=TIMEOUT_S, calls=len(sets), warm=len(warm))
    cpu_before = cpu_ns(child)
    waited, started = own_wait_ns(), time.perf_counter_ns()
    reply = child.call("benchmarking.go", timeout_s=TIMEOUT_S, read=list(read))
    outside_ns, waited = time.perf_counter_ns() - started, own_wait_ns() - waited
    cpu_after = cpu_ns(child)
    burst = _burst(reply, len(sets), outside_ns)
    burst.cpu_ns = None if cpu_before is None or cpu_after is None else cpu_after - cpu_before
    inside_ns = int(burst.calls_ns.sum())
    if clock_reason(inside_ns + burst.read_ns, outside_ns, waited) is not None:
        entrant.refusals += 1
        raise Refused(inside_ns, outside_ns)
    burst.own_wait_ns = waited
    return burst


def after_refusal(entrant: Entrant, refused: Refused, refusals: int) -> None:
    """Pauses before the next attempt. The child should be stopped, so that only others' work is seen.

    A refused burst never counts, whatever the cause; on a busy machine it is no reason to accuse the child, so it is
    tried more often there. Raises FuseworksError (`benchmarking:user:clock`, `benchmarking:ours:busy`) once it was
    refused too often: `refusals` times so far.
    """
    if refusals >= MAX_REFUSALS:
        crowd = busy()
        if refusals >= (MAX_REFUSALS_BUSY if crowd else MAX_REFUSALS):
            raise FuseworksError(
                "benchmarking:ours:busy" if crowd else "benchmarking:user:clock",
                place=entrant.name,
                name=entrant.name,
                inside_ms=round(refused.inside_ns / 1e6, 2),
                outside_ms=round(refused.outside_ns / 1e6, 2),
                refusals=refusals,
                cores=cores(),
            )
    time.sleep(min(REFUSAL_PAUSE_S * 2**refusals, LONGEST_PAUSE_S))


def answers(entrant: Entrant, burst: Burst, indices: list[int]) -> list[list[np.ndarray]]:
    """The outputs of some calls of the last burst, which were among its `read`.

    Raises Refused when reading them took longer than reading can; FuseworksError (`benchmarking:user:answers-changed`,
    `child:user:bad-answer`); ChildFailed.
    """
    reply = entrant.child.call("benchmarking.outputs", timeout_s=TIMEOUT_S, indices=indices)
    per_call = _count(reply.fields, "outputs_per_set")
    if len(reply.arrays) != per_call * len(indices):
        raise FuseworksError("child:user:bad-answer", text=f"{len(reply.arrays)} outputs for {len(indices)} calls")
    if reply.fields.get("changed"):
        text = "an answer was another one once the burst was over"
        raise FuseworksError("benchmarking:user:answers-changed", place=entrant.name, name=entrant.name, text=text)
    if burst.read_ns > len(indices) * READ_SLACK_NS + READ_NS_PER_BYTE * sum(array.nbytes for array in reply.arrays):
        entrant.refusals += 1
        raise Refused(int(burst.calls_ns.sum()), burst.outside_ns)
    return [reply.arrays[at * per_call : (at + 1) * per_call] for at in range(len(indices))]


def read_memory(entrant: Entrant) -> None:
    fields = entrant.child.call("benchmarking.memory", timeout_s=TIMEOUT_S).fields
    entrant.peak_rss_bytes = _count(fields, "peak_rss_bytes")
    if fields.get("allocator_peak_bytes") is not None:
        entrant.allocator_peak_bytes = _count(fields, "allocator_peak_bytes")


def _flat(sets: list[InputSet]) -> InputSet:
    return [array for inputs in sets for array in inputs]


def _burst(reply: Reply, calls: int, outside_ns: int) -> Burst:
    if not reply.arrays or any(a.shape != (calls,) or a.dtype != np.int64 for a in reply.arrays[:2]):
        raise FuseworksError("child:user:bad-answer", text=f"no times for {calls} calls")
    if (reply.arrays[0] <= 0).any():
        raise FuseworksError("child:user:bad-answer", text="a call that took no time")
    wait = reply.fields.get("wait_ns")
    return Burst(
        calls_ns=reply.arrays[0],
        outside_ns=outside_ns,
        page_faults=_count(reply.fields, "page_faults"),
        wait_ns=wait if isinstance(wait, int) else None,
        read_ns=_count({"read_ns": 0, **reply.fields}, "read_ns"),
        device_ns=reply.arrays[1] if len(reply.arrays) > 1 else None,
    )


def _count(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise FuseworksError("child:user:bad-answer", text=f"{name} is {str(value)[:80]}")
    return value
