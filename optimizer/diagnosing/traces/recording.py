"""From the stream of a trace to columns: every field is checked, since whoever wrote the file may be hostile.

Newer and older names of categories (`kernel`, `Kernel`), CUDA's and ROCm's, numbers written as text. Events that make
no sense are counted and left out.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from optimizer.diagnosing.traces import messages, paddings, shapes
from optimizer.diagnosing.traces.columns import Activity, CallColumns, Columns, GpuColumns, Names
from optimizer.diagnosing.traces.json_stream import JsonStream
from optimizer.diagnosing.traces.memory import Memory
from optimizer.diagnosing.traces.sources import Sources
from optimizer.errors import FuseworksError

GPU_CATEGORIES = {
    "kernel": Activity.KERNEL,
    "Kernel": Activity.KERNEL,
    "gpu_memcpy": Activity.COPY,
    "Memcpy": Activity.COPY,
    "gpu_memset": Activity.SET,
    "Memset": Activity.SET,
}
OPERATION_CATEGORIES = ("cpu_op", "Operator")
CALL_CATEGORIES = ("cuda_runtime", "cuda_driver", "Runtime", "hip_runtime", "hip_driver", "xpu_runtime")
HEADER = ("distributedInfo", "deviceProperties")
MAX_KEYS = 10_000
STEP = "ProfilerStep#"
DATA_LOADER = "DataLoader"
LARGEST_US = 1e18
NUMBER = re.compile(r"-?\d{1,18}")
# called by name; and the collector itself, where it was recorded (record_python_gc_info)
COLLECTED = re.compile(r"built-in (?:function|method) collect\b|^Python GC$")
MAX_REGIONS = 10_000
# a trace of 1 GiB has some three million; many more would take more memory than a child is given
MAX_EVENTS = 8_000_000


@dataclass
class Recording:
    """All that is kept of one rank's trace."""

    names: Names = field(default_factory=Names)
    header: dict[str, Any] = field(default_factory=dict)
    gpu: GpuColumns = field(default_factory=GpuColumns)
    operations: Columns = field(default_factory=Columns)
    calls: CallColumns = field(default_factory=CallColumns)
    steps: Columns = field(default_factory=Columns)
    loading: Columns = field(default_factory=Columns)
    collecting: Columns = field(default_factory=Columns)
    compiling: Columns = field(default_factory=Columns)
    optimizer: Columns = field(default_factory=Columns)
    messages: messages.Messages = field(default_factory=messages.Messages)
    shapes: shapes.Shapes = field(default_factory=shapes.Shapes)
    paddings: paddings.Paddings = field(default_factory=paddings.Paddings)
    memory: Memory = field(default_factory=Memory)
    sources: Sources = field(default_factory=Sources)
    regions: Counter[str] = field(default_factory=Counter)
    events: int = 0
    malformed: int = 0
    known_events: int = 0
    _threads: dict[str, int] = field(default_factory=dict)

    def thread(self, value: object) -> int:
        """Of a number, of a number as text, or of a name such as `stream 7`."""
        if type(value) is int and -(1 << 62) < value < 1 << 62:
            return value
        text = str(value)[:100]
        found = NUMBER.search(text)
        if found:
            return int(found.group())
        return self._threads.setdefault(text, -2 - len(self._threads)) if len(self._threads) < 10_000 else -1


def read(pieces: Iterator[str]) -> Recording:
    """Raises FuseworksError (`diagnosing:user:...`) for what is no trace of torch.profiler."""
    stream = JsonStream(pieces)
    recording = Recording()
    opening = stream.opening()
    if opening == "[":
        _take(stream.rest_of_array(), recording)
    elif opening == "{":
        keys = []
        for key in stream.each_key():
            keys.append(key[:60])
            if key == "traceEvents":
                _take(stream.array(), recording)
            elif key == "nodes":
                raise _foreign("a PyTorch execution trace (of ExecutionTraceObserver): a graph without times")
            else:
                value = stream.value()
                if key in HEADER:
                    recording.header[key] = value
            if len(keys) > MAX_KEYS:
                raise _foreign(f"a JSON object with more than {MAX_KEYS} keys")
        if "traceEvents" not in keys:
            raise _foreign(
                f"a JSON object with the keys {', '.join(sorted(keys)[:6])}" if keys else "an empty JSON object"
            )
    else:
        raise _foreign("no JSON document")
    if not recording.known_events:
        raise _foreign(f"a list of {recording.events:,} events of which none is of torch.profiler")
    return recording


def _foreign(what: str) -> FuseworksError:
    return FuseworksError("diagnosing:user:foreign", what=what[:400])


def _take(events: Iterator[Any], recording: Recording) -> None:
    """The one loop over all events: what it does costs its time a million times over."""
    handlers = _handlers(recording)
    memory = recording.memory.take
    seen = malformed = known = 0
    for event in events:
        seen += 1
        if type(event) is not dict:
            malformed += 1
            continue
        phase = event.get("ph")
        if phase == "X":
            try:
                handler = handlers.get(event.get("cat"))
            except TypeError:  # a category that is no text
                malformed += 1
                continue
            if handler is None:
                continue
            known += 1
            if known > MAX_EVENTS:
                raise FuseworksError("diagnosing:user:too-many-events", limit=MAX_EVENTS)
            name, start, duration = event.get("name"), event.get("ts"), event.get("dur", 0)
            if type(start) is not float and type(start) is not int:
                start = _number(start)
            if type(duration) is not float and type(duration) is not int:
                duration = _number(duration)
            if type(name) is not str or not (-LARGEST_US < start < LARGEST_US) or not (0 <= duration < LARGEST_US):
                malformed += 1
                continue
            args = event.get("args")
            handler(name, start, duration, event, args if type(args) is dict else {})
        elif phase in ("i", "I") and event.get("name") == "[memory]":
            args = event.get("args")
            if type(args) is dict:
                memory(args)
    recording.events += seen
    recording.malformed += malformed
    recording.known_events += known


def _number(value: object) -> float:
    """NaN, which no comparison lets through, where it is none."""
    if type(value) is str and len(value) < 40:
        try:
            return float(value)
        except ValueError:
            return math.nan
    return math.nan


Handler = Callable[[str, float, float, dict[str, Any], dict[str, Any]], None]


def _handlers(recording: Recording) -> dict[Any, Handler]:
    """By category."""
    handlers: dict[Any, Handler] = dict.fromkeys(OPERATION_CATEGORIES, _operation_handler(recording))
    handlers |= dict.fromkeys(CALL_CATEGORIES, _call_handler(recording))
    handlers |= {category: _gpu_handler(recording, kind) for category, kind in GPU_CATEGORIES.items()}
    handlers["user_annotation"] = _annotation_handler(recording)
    handlers["python_function"] = _python_handler(recording)
    return handlers


def _gpu_handler(recording: Recording, activity: Activity) -> Handler:
    gpu, number, thread, messages_ = recording.gpu, recording.names.number, recording.thread, recording.messages
    kind = int(activity)

    def handle(name: str, start: float, duration: float, event: dict[str, Any], args: dict[str, Any]) -> None:
        get = args.get
        stream, correlation = get("stream", event.get("tid")), get("correlation")
        gpu.add(start, duration, number(name), thread(stream))
        gpu.correlation.append(_whole(correlation, -1))
        gpu.activity.append(kind)
        gpu.device.append(_device(get("device", event.get("pid"))))
        gpu.blocks_per_sm.append(_small(get("blocks per SM")))
        gpu.occupancy_percent.append(_small(get("est. achieved occupancy %")))
        gpu.size_bytes.append(_whole(get("bytes"), 0))
        if "Collective name" in args:
            messages_.of_kernel(len(gpu) - 1, args)

    return handle


def _whole(value: object, otherwise: int) -> int:
    if type(value) is int:
        return value if -(1 << 62) < value < 1 << 62 else otherwise
    if type(value) is str and NUMBER.fullmatch(value):
        return int(value)
    return otherwise


def _device(value: object) -> int:
    found = _whole(value, -1)
    return found if 0 <= found < 1 << 20 else -1


def _small(value: object) -> float:
    return value if type(value) in (int, float) and 0 <= value < 1e12 else math.nan  # type: ignore[operator,return-value]


def _operation_handler(recording: Recording) -> Handler:
    operations, number, thread = recording.operations, recording.names.number, recording.thread
    annotate, shaped, placed = _annotation_handler(recording), recording.shapes.take, recording.sources.take
    padded = recording.paddings

    def handle(name: str, start: float, duration: float, event: dict[str, Any], args: dict[str, Any]) -> None:
        known = number(name)
        operations.add(start, duration, known, thread(event.get("tid")))
        if "Call stack" in args:
            placed(known, args["Call stack"])
        if name in paddings.PADS:
            padded.pad(name, args)
        elif padded.sizes and "Input Dims" in args:
            padded.see(name, args["Input Dims"])
        if name.startswith("aten::"):
            if "Input Dims" in args:
                shaped(name, args, duration)
        else:
            annotate(name, start, duration, event, args)  # old traces have no category for annotations

    return handle


def _call_handler(recording: Recording) -> Handler:
    calls, number, thread = recording.calls, recording.names.number, recording.thread

    def handle(name: str, start: float, duration: float, event: dict[str, Any], args: dict[str, Any]) -> None:
        calls.add(start, duration, number(name), thread(event.get("tid")))
        calls.correlation.append(_whole(args.get("correlation"), -1))

    return handle


def _annotation_handler(recording: Recording) -> Handler:
    number, thread = recording.names.number, recording.thread

    def handle(name: str, start: float, duration: float, event: dict[str, Any], args: dict[str, Any]) -> None:
        if name.startswith(STEP):
            recording.steps.add(start, duration, number(name), thread(event.get("tid")))
        if DATA_LOADER in name:
            recording.loading.add(start, duration, number(name), thread(event.get("tid")))
        if name.startswith("Optimizer.step#"):
            recording.optimizer.add(start, duration, number(name), thread(event.get("tid")))
        if messages.names_one(name):
            recording.messages.of_host(name, start, start + duration, thread(event.get("tid")), args)
        if "Torch-Compiled Region" in name and (name in recording.regions or len(recording.regions) < MAX_REGIONS):
            recording.regions[name[:200]] += 1
        if "dynamo_timed" in name or "compile_inner" in name or "_compile.compile" in name:
            recording.compiling.add(start, duration, number(name), thread(event.get("tid")))

    return handle


def _python_handler(recording: Recording) -> Handler:
    number, thread = recording.names.number, recording.thread

    def handle(name: str, start: float, duration: float, event: dict[str, Any], args: dict[str, Any]) -> None:
        if DATA_LOADER in name:
            recording.loading.add(start, duration, number(name), thread(event.get("tid")))
        elif COLLECTED.search(name):
            recording.collecting.add(start, duration, number(name), thread(event.get("tid")))

    return handle
