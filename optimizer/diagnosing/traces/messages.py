"""Messages of collectives: which one moved how many bytes, from a kernel's own arguments or from the host's side.

Newer versions of Kineto write a kernel's message into its arguments; before, the annotation around its launch has it
(`nccl:all_reduce` with its input's dims).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from optimizer.diagnosing.traces.columns import CallColumns, GpuColumns

HOST_NAMES = ("nccl:", "rccl:", "gloo:", "mpi:", "ucc:", "c10d::", "record_param_comms")
MAX_HOST_MESSAGES = 500_000
# as the profiler writes dtypes: of a kernel's arguments, of an operation's inputs
WIDTHS = {
    **dict.fromkeys(("double", "long int", "long", "c10::complex<float>"), 8),
    **dict.fromkeys(("float", "int", "unsigned int"), 4),
    **dict.fromkeys(("half", "bfloat16", "c10::half", "c10::bfloat16", "short int", "short"), 2),
    **dict.fromkeys(("byte", "char", "bool", "unsigned char", "signed char", "float8_e4m3fn", "float8_e5m2"), 1),
}
KINDS = (
    ("reduce_scatter", re.compile(r"reduce_?scatter", re.IGNORECASE)),
    ("all_reduce", re.compile(r"all_?reduce", re.IGNORECASE)),
    ("all_gather", re.compile(r"all_?gather", re.IGNORECASE)),
    ("all_to_all", re.compile(r"all_?to_?all|send_?recv", re.IGNORECASE)),
    ("broadcast", re.compile(r"broadcast", re.IGNORECASE)),
    ("barrier", re.compile(r"barrier", re.IGNORECASE)),
    ("reduce", re.compile(r"reduce", re.IGNORECASE)),
    ("send_recv", re.compile(r"\b(?:send|recv)\b|_(?:send|recv)", re.IGNORECASE)),
)


class Message(NamedTuple):
    """0 bytes or a group of 0: not told."""

    kind: str
    size_bytes: int
    group: int


def kind_of(name: str) -> str:
    return next((kind for kind, pattern in KINDS if pattern.search(name)), "other")


def names_one(name: str) -> bool:
    """Whether an event of the host stands around the launch of a collective."""
    return name.startswith(HOST_NAMES)


@dataclass
class Messages:
    kernels: dict[int, Message] = field(default_factory=dict)
    _hosts: list[tuple[int, float, float, Message]] = field(default_factory=list)

    def of_kernel(self, index: int, args: dict[str, Any]) -> None:
        self.kernels[index] = _told(str(args["Collective name"])[:60], args)

    def of_host(self, name: str, start: float, end: float, thread: int, args: dict[str, Any]) -> None:
        if len(self._hosts) < MAX_HOST_MESSAGES:
            if "Collective name" in args:
                message = _told(str(args["Collective name"])[:60], args)
            else:
                message = Message(kind_of(name), _first_input_bytes(args), 0)
            self._hosts.append((thread, start, end, message))

    def of(self, gpu: GpuColumns, wanted: np.ndarray, calls: CallColumns) -> dict[int, Message]:
        """The message of each wanted GPU event that is told of anywhere, by its index."""
        found = {index: self.kernels[index] for index in wanted.tolist() if index in self.kernels}
        missing = [index for index in wanted.tolist() if index not in found or not found[index].size_bytes]
        if not missing or not self._hosts:
            return found
        launches = dict(zip(calls.correlations().tolist(), range(len(calls)), strict=True))
        hosts = sorted(self._hosts, key=lambda host: host[1])
        by_thread: dict[int, list[tuple[int, float, float, Message]]] = {}
        for host in hosts:
            by_thread.setdefault(host[0], []).append(host)
        begins = {thread: np.array([host[1] for host in rows]) for thread, rows in by_thread.items()}
        for index in missing:
            launch = launches.get(gpu.correlation[index], -1)
            if launch < 0 or calls.thread[launch] not in by_thread:
                continue
            thread, moment = calls.thread[launch], calls.start[launch]
            last = int(np.searchsorted(begins[thread], moment, side="right")) - 1
            around = [host for host in by_thread[thread][max(0, last - 3) : last + 1] if host[2] >= moment]
            if around:
                found[index] = max((host[3] for host in around), key=lambda message: message.size_bytes)
        return found


def _told(name: str, args: dict[str, Any]) -> Message:
    elements = max(_count(args.get("In msg nelems")), _count(args.get("Out msg nelems")))
    return Message(kind_of(name), elements * _width(args.get("dtype")), _count(args.get("Group size")))


def _first_input_bytes(args: dict[str, Any]) -> int:
    dims, types = args.get("Input Dims"), args.get("Input type")
    if not (isinstance(dims, list) and isinstance(types, list) and dims and types and isinstance(dims[0], list)):
        return 0
    if len(dims[0]) > 16 or not all(type(d) is int and 0 <= d < 1 << 40 for d in dims[0]):
        return 0
    elements = math.prod(dims[0])
    return elements * _width(types[0]) if dims[0] and elements < 1 << 50 else 0


def _count(value: object) -> int:
    if isinstance(value, str) and value.isdecimal() and len(value) < 16:
        return int(value)
    return value if type(value) is int and 0 <= value < 1 << 50 else 0


def _width(dtype: object) -> int:
    return WIDTHS.get(dtype.lower(), 0) if isinstance(dtype, str) else 0
