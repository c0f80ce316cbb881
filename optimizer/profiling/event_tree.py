"""What torch's profiler recorded as a tree: operations inside operations, and the allocations within them.

The one module that leans on torch's insides for it: the public list of events tells neither an allocation's address nor
which of two operations asked for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch._C._profiler import _EventType
from torch.profiler import profile


class Allocation(NamedTuple):
    """`size` bytes asked for, or given back where it is negative."""

    address: int
    size: int


@dataclass
class Event:
    """Times in nanoseconds of one clock. `sequence`: autograd's number, which a forward operation and the node of
    backward that it made have in common; -1 without one."""

    name: str
    start_ns: int
    end_ns: int
    sequence: int = -1
    allocation: Allocation | None = None
    children: list[Event] = field(default_factory=list)

    @property
    def ms(self) -> float:
        return (self.end_ns - self.start_ns) / 1e6

    def walk(self) -> Iterator[Event]:
        """Itself and all below, each before what is in it."""
        ahead = [self]
        while ahead:
            one = ahead.pop()
            yield one
            ahead += reversed(one.children)


def events_named(profiler: profile, name: str) -> list[Event]:
    """In the order in which they began."""
    results: Any = profiler.profiler
    tree = results.kineto_results.experimental_event_tree()
    found = [event for root in tree for event in _converted(root).walk() if event.name == name]
    return sorted(found, key=lambda event: event.start_ns)


def _converted(event: Any) -> Event:
    kind, fields = event.typed
    made = Event(event.name, event.start_time_ns, event.end_time_ns)
    if kind == _EventType.TorchOp:
        made.sequence = fields.sequence_number
    elif kind == _EventType.Allocation and fields.device.type == "cpu":
        made.allocation = Allocation(fields.ptr, fields.alloc_size)
    made.children = sorted(map(_converted, event.children), key=lambda child: child.start_ns)
    return made
