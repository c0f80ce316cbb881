"""The distribution of single calls out of samples.json, thinned for drawing and labelled as such.

The verdict rests on whole processes, never on these. The samples are read once, and what is kept of them (`thinned`) is
what pages read. 18 sets of six contenders have some 0.5 MB; reading takes ten times the memory of the file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

from django.core.files import File
from django.utils.translation import gettext as _

MAX_POINTS = 500
MAX_CONTENDERS = 8
MAX_BYTES = 8 << 20
MAX_ERROR = 400
TOO_MANY = "too-many"
NS_PER_MS = 1e6


class Unreadable(ValueError):
    """The samples are not what the coordinator writes; the message says what is wrong."""


@dataclass(frozen=True)
class Curve:
    """`points`: (milliseconds, share of all calls that took at most so long). Shares count every call, drawn or not."""

    name: str
    calls: int
    processes: int
    points: Sequence[Sequence[float]]

    @property
    def thinned(self) -> bool:
        return len(self.points) < self.calls

    def document(self) -> dict[str, Any]:
        return {**asdict(self), "thinned": self.thinned, "label": self.label}

    @property
    def label(self) -> str:
        return _("%(name)s (%(calls)s calls)") % {"name": self.name, "calls": f"{self.calls:,}"}


def thinned(file: BinaryIO | File[bytes], size_bytes: int) -> dict[str, Any]:
    """What is stored: `curves` with the document's own names, or the `error` for which there are none."""
    if size_bytes > MAX_BYTES:
        return {"error": TOO_MANY}
    try:
        document = json.loads(file.read())
        # of each contender one entry a process, of each process one list a burst, in nanoseconds
        calls = {
            str(name): [[float(ns) for burst in process["calls_ns"] for ns in burst] for process in processes]
            for name, processes in document.items()
        }
        if not all(math.isfinite(ns) for processes in calls.values() for burst in processes for ns in burst):
            raise ValueError("a time that is not finite")
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        return {"error": repr(error)[:MAX_ERROR]}
    shown = [(name, processes) for name, processes in calls.items() if any(processes)][:MAX_CONTENDERS]
    return {"curves": [asdict(curve(name, processes)) for name, processes in shown]}


def curves(stored: Mapping[str, Any], names: Mapping[str, str] | None = None) -> list[Curve]:
    """Of what `thinned` made. `names`: what to call a contender of the document. Raises Unreadable."""
    error = stored.get("error")
    if error == TOO_MANY:
        raise Unreadable(_("the samples are too many to draw here; download them"))
    if error is not None:
        raise Unreadable(_("the samples are not in the expected form (%(error)s)") % {"error": error})
    return [
        Curve((names or {}).get(one["name"], one["name"]), one["calls"], one["processes"], one["points"])
        for one in stored["curves"]
    ]


def curve(name: str, processes: list[list[float]], max_points: int = MAX_POINTS) -> Curve:
    """The empirical distribution over all calls of all processes, at no more than `max_points` of them."""
    values = sorted(ns / NS_PER_MS for process in processes for ns in process)
    count = len(values)
    ranks = kept_ranks(count, max_points)
    points = [(round(values[rank], 6), (rank + 1) / count) for rank in ranks]
    return Curve(name, count, len(processes), points)


def kept_ranks(count: int, max_points: int) -> list[int]:
    """Evenly spaced ranks, the fastest and the slowest call among them; all of them when they are few enough."""
    if count <= max_points:
        return list(range(count))
    return [round(index * (count - 1) / (max_points - 1)) for index in range(max_points)]
