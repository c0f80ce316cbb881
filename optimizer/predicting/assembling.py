"""Puts a lowered graph together as results show it: each kernel compiled and bounded, each library call bounded.

Which configuration tuning would choose only a device can say. Shown is the first, which runs untuned; where that one
spills or does not launch, the one with the best occupancy that does not. What this process compiled once is kept.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kernels
from kernels.aot.compiler import Compiled, DoesNotCompile, Source, compile_sources, identity, source_of
from kernels.aot.devices import Device
from kernels.aot.resources import Resources, resources
from kernels.aot.roofline import Bound, bound
from kernels.spec import NAMESPACE, Configuration, Kernel, Launch, jit
from optimizer.predicting.document import ExternCall, Lowering, PredictedKernel, SourceNode
from optimizer.predicting.externs import work_of
from optimizer.predicting.formula import EXTERN_SHARE, kernel_share, upper_us
from optimizer.predicting.inductor.generated import Choice, choices
from optimizer.predicting.inductor.lowering import Lowered
from optimizer.predicting.inductor.replay import Called, Launched, Replayed
from optimizer.predicting.inductor.traffic import Traffic
from optimizer.predicting.places import source_nodes

Entry = PredictedKernel | ExternCall


@dataclass(frozen=True)
class _Starts:
    """A call of a fused operation of ours: what it launches, in the configuration that an untuned call takes."""

    kernel: Kernel
    args: tuple[Any, ...]
    options: tuple[Configuration, ...]
    launches: tuple[tuple[Launch, Source], ...]


@dataclass
class Assembler:
    """One per process and target. `scratch`: generated kernels are written there, for Triton reads files."""

    device: Device
    scratch: Path
    tell: Callable[[str], None] = lambda _: None
    _compiled: dict[str, Compiled] = field(default_factory=dict)
    _refused: dict[str, str] = field(default_factory=dict)
    _seconds: float = 0.0

    def assemble(self, lowered: Lowered, replayed: Replayed) -> Lowering:
        """Within `absent_gpu`. Raises DoesNotCompile, Unavailable."""
        self._seconds = 0.0
        generated: dict[str, list[Choice]] = {}
        ours: dict[int, _Starts] = {}
        for step in replayed.steps:
            if isinstance(step, Called):
                if step.operation.namespace == NAMESPACE and not _is_wide(step):
                    ours[id(step)] = _starts(step)
            elif step.name not in generated:
                text = replayed.sources[step.name]
                generated[step.name] = choices(step.name, text, step.arguments, self._folder())
        self._compile([options[0].source for options in generated.values()])
        self._compile([source for starts in ours.values() for _, source in starts.launches], bearing=True)
        notes: dict[str, None] = {}
        found: dict[str, Entry] = {}
        launched: Counter[str] = Counter()
        waiting = list(lowered.externs)
        for step in replayed.steps:
            if isinstance(step, Launched):
                moved = lowered.traffic[step.name][launched[step.name]]
                launched[step.name] += 1
                self._generated(found, step, moved, generated[step.name], replayed.sources[step.name])
            elif id(step) in ours and (refusal := self._refusal(ours[id(step)])) is None:
                self._of_library(found, step, ours[id(step)], _nodes_of(step, waiting))
            else:
                if id(step) in ours:
                    notes[f"{step.operation} has no resources here: {refusal}"] = None
                self._extern(found, step, _nodes_of(step, waiting))
        return lowering_of(list(found.values()), lowered.seconds, self._seconds, list(notes))

    def _generated(
        self, found: dict[str, Entry], step: Launched, moved: Traffic, options: list[Choice], text: str
    ) -> None:
        if step.name not in found:
            choice, taken = self._best(options)
            nodes = source_nodes(moved.origins)
            found[step.name] = _kernel(
                step.name, "inductor", choice.name, len(options), taken, choice.grid, text, nodes
            )
        entry = found[step.name]
        assert isinstance(entry, PredictedKernel)
        tensor_cores = entry.tensor_core_instructions > 0
        least = bound(self.device, bytes=moved.bytes, flops=moved.flops, dtype="float32", tensor_cores=tensor_cores)
        _add(entry, moved.bytes, moved.flops, least, _share(entry, least))

    def _of_library(self, found: dict[str, Entry], step: Called, starts: _Starts, nodes: list[SourceNode]) -> None:
        cost = starts.kernel.cost(*starts.args)
        floats = [str(t.dtype).removeprefix("torch.") for t in step.tensors if t.dtype.is_floating_point]
        dtype = floats[0] if floats else "float32"
        count = len(starts.launches)
        for place, (launch, source) in enumerate(starts.launches):
            name = f"{NAMESPACE}.{starts.kernel.name}" + (f" [{place}]" if count > 1 else "")
            key = f"{name} {identity(source)} {launch.grid}"
            if key not in found:
                taken = self._resources(source, launch.grid)
                label, text = starts.options[0].name, str(source.function.src)
                found[key] = _kernel(
                    name, "fuseworks", label, len(starts.options), taken, tuple(launch.grid), text, nodes
                )
            entry = found[key]
            assert isinstance(entry, PredictedKernel)
            # the cost model is of the whole call: its launches share it evenly
            moved, flops = cost.bytes // count, cost.flops // count
            tensor_cores = entry.tensor_core_instructions > 0
            least = bound(self.device, bytes=moved, flops=flops, dtype=dtype, tensor_cores=tensor_cores)
            _add(entry, moved, flops, least, _share(entry, least))

    def _extern(self, found: dict[str, Entry], step: Called, nodes: list[SourceNode]) -> None:
        work = work_of(step, self.device)
        key = f"{work.name} {work.shapes}"
        if key not in found:
            found[key] = ExternCall(
                name=work.name, source_nodes=[], shapes=work.shapes, dtype=work.dtype,
                launches=0, bytes=0, flops=0, bound_us=0.0, bound_by=work.bound.by, upper_us=0.0,
            )  # fmt: skip
        entry = found[key]
        assert isinstance(entry, ExternCall)
        entry.source_nodes += nodes
        _add(entry, work.bytes, step.flops, work.bound, EXTERN_SHARE)

    def _best(self, options: Sequence[Choice]) -> tuple[Choice, Resources]:
        """The first, which Inductor takes untuned; the others are looked at only where that one is no good."""
        first = self._resources(options[0].source, options[0].grid)
        if first.launches and not first.spills:
            return options[0], first
        self._compile([one.source for one in options])
        tried = [(one, self._resources(one.source, one.grid)) for one in options]
        return max(tried, key=lambda pair: (pair[1].launches, -pair[1].spills, pair[1].occupancy))

    def _resources(self, source: Source, grid: Sequence[int]) -> Resources:
        return resources(self._compiled[identity(source)], self.device, grid)

    def _refusal(self, starts: _Starts) -> str | None:
        """Why one of its launches is not compiled for this target; None when all are."""
        return next((text for _, source in starts.launches if (text := self._refused.get(identity(source)))), None)

    def _compile(self, sources: Sequence[Source], *, bearing: bool = False) -> None:
        """Those that this process has not compiled yet. `bearing`: what is refused is remembered, not raised."""
        fresh = {identity(source): source for source in sources}
        fresh = {k: v for k, v in fresh.items() if k not in self._compiled and k not in self._refused}
        if not fresh:
            return
        self.tell(f"Compiling {len(fresh)} Triton kernels for {self.device.target}")
        began = time.perf_counter()
        for key, built in zip(fresh, compile_sources(list(fresh.values()), self.device), strict=True):
            if not isinstance(built, DoesNotCompile):
                self._compiled[key] = built
            elif bearing:
                self._refused[key] = str(built).splitlines()[0][:300]
            else:
                raise built
        self._seconds += time.perf_counter() - began

    def _folder(self) -> Path:
        folder = self.scratch / "generated"
        folder.mkdir(exist_ok=True)
        return folder


def _starts(step: Called) -> _Starts:
    kernel = kernels.KERNELS.get(step.operation.overloadpacket.__name__)
    args = _all_arguments(step)
    options = kernel.configurations(*args)
    launches = kernel.launches(kernel.fake(*args), options[0], *args)
    sources = [source_of(jit(one.function), one.args, one.constants, one.num_warps, one.num_stages) for one in launches]
    return _Starts(kernel, args, options, tuple(zip(launches, sources, strict=True)))


def _all_arguments(step: Called) -> tuple[Any, ...]:
    """In the schema's order; the dispatcher drops those that have their default value."""
    given = []
    for place, argument in enumerate(step.operation._schema.arguments):
        named = step.kwargs.get(argument.name, argument.default_value)
        given.append(step.args[place] if place < len(step.args) else named)
    return tuple(given)


def _is_wide(step: Called) -> bool:
    """In float64 the operation runs its reference: the library's kernels compute in float32."""
    return any(str(tensor.dtype) == "torch.float64" for tensor in step.tensors)


def lowering_of(entries: Sequence[Entry], lowering_s: float, compiling_s: float, notes: Sequence[str] = ()) -> Lowering:
    lower, upper = sum(e.bound_us for e in entries), sum(e.upper_us for e in entries)
    return Lowering(
        kernels=[e for e in entries if isinstance(e, PredictedKernel)],
        extern_calls=[e for e in entries if isinstance(e, ExternCall)],
        kernels_launched=sum(e.launches for e in entries),
        bytes_moved=sum(e.bytes for e in entries),
        predicted_ms=(lower / 1e3, upper / 1e3),
        lowering_s=round(lowering_s, 3),
        compiling_s=round(compiling_s, 3),
        notes=list(notes),
    )


def _kernel(
    name: str,
    origin: Any,
    configuration: str,
    configurations: int,
    taken: Resources,
    grid: tuple[int, ...],
    text: str,
    nodes: list[SourceNode],
) -> PredictedKernel:
    known = {field: getattr(taken, field) for field in Resources.__dataclass_fields__}
    wanted = {field: value for field, value in known.items() if field in PredictedKernel.model_fields}
    return PredictedKernel(
        name=name, origin=origin, configuration=configuration, configurations=configurations, grid=list(grid),
        triton_source=text, source_nodes=nodes, launches=0, bytes=0, flops=0, bound_us=0.0, bound_by="memory",
        upper_us=0.0, **wanted,
    )  # fmt: skip


def _add(entry: Entry, moved: int, flops: int, least: Bound, share: float) -> None:
    """One launch more."""
    entry.launches += 1
    entry.bytes += moved
    entry.flops += flops
    entry.bound_us += least.us
    entry.bound_by = least.by
    entry.upper_us += upper_us(least.us, share)


def _share(entry: PredictedKernel, least: Bound) -> float:
    return kernel_share(entry.bytes_in_flight, entry.bytes_in_flight_wanted, least.by)


def _nodes_of(step: Called, waiting: list[tuple[str, tuple[Any, ...]]]) -> list[SourceNode]:
    """Those behind the next call of this operation that Inductor ordered; none where it gives it another name."""
    name = step.operation.overloadpacket.__name__
    for place, (ordered, origins) in enumerate(waiting):
        if name in ordered.replace("::", ".").split("."):
            del waiting[place]
            return source_nodes(origins)
    return []
