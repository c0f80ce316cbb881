"""Where a training step spends its time and memory: forward, backward and optimizer apart.

Forward is the captured graph, run node by node; a node of backward is told by the module and the line of the forward
operation that made it. Not for compiled steps, whose kernels are of no single node. On a CPU only.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.profiler import ProfilerActivity, profile, record_function

from optimizer.compiling.base import Profiled
from optimizer.compiling.step.runtime import Step
from optimizer.profiling.document import GraphNode, Operation, Phase, PhaseName
from optimizer.profiling.event_tree import Event, events_named
from optimizer.profiling.marks import CALL, FORWARD, UPDATE, Marked, owners, phase_at, spans
from optimizer.profiling.memory import held_bytes, record, timeline
from optimizer.profiling.one_call import operation_spans
from optimizer.profiling.torch_graph import Described

WARM_UP = 2
PHASES: tuple[PhaseName, ...] = ("forward", "backward", "optimizer")
MEMORY = (
    "PyTorch's allocator was recorded during one step of the captured graph: what it gave out and has not got back. "
    "Gradients count; weights and the optimizer's state are resident."
)


def profile_step(step: Step, tensors: Sequence[torch.Tensor], calls: int) -> Profiled:
    """`step` is of a graph, and its state goes on from call to call."""
    graph = step._forward
    assert isinstance(graph, fx.GraphModule)
    described = _described(graph, tensors, step)
    marked = Marked(graph)
    step._forward = _under(FORWARD, marked.run)
    step._update = _under(UPDATE, step._update)
    roots = _recorded(lambda: step(*tensors), calls)
    recorded = record(lambda: step(*tensors))
    state = [tensor for _, tensor in step.optimizer_state()]
    resident = held_bytes([*step.parameters.values(), *step.buffers.values(), *state, *tensors])
    return Profiled(
        rows_of(roots, marked.places, [described.get(node, {}) for node in marked.nodes]),
        statistics.median(root.ms for root in roots),
        timeline(recorded, marked.places, resident, MEMORY),
        phases_of(roots),
        operation_spans(recorded, marked.places),
    )


def _described(graph: fx.GraphModule, tensors: Sequence[torch.Tensor], step: Step) -> dict[fx.Node, dict[str, Any]]:
    """Shapes, FLOPs and bytes of forward. Rows of tables, which are inputs of their own, are looked up first."""
    described = Described(graph)
    with torch.no_grad():
        _, rows = step._looked_up(tensors)
        described.run(*tensors, *rows)
    return described.rows


def _under(mark: str, work: Callable[..., Any]) -> Callable[..., Any]:
    def marked(*arguments: Any) -> Any:
        with record_function(mark):
            return work(*arguments)

    return marked


def _recorded(call: Callable[[], Any], calls: int) -> list[Event]:
    for _ in range(WARM_UP):
        call()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(calls + WARM_UP):
            with record_function(CALL):
                call()
    return events_named(profiler, CALL)[WARM_UP:]


def rows_of(
    calls: Sequence[Event], places: Sequence[GraphNode], described: Sequence[dict[str, Any]]
) -> list[Operation]:
    """The nth operation of a name and a phase is the same one in every call. `described`: of each place."""
    times: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    facts: dict[tuple[Any, ...], dict[str, Any]] = {}
    for call in calls:
        parts, seen = spans(call), defaultdict[tuple[Any, ...], int](int)
        for owner in owners(call, places):
            phase = phase_at(parts, owner.event.start_ns)
            name = (phase, owner.op, owner.number)
            key = (*name, seen[name])
            seen[name] += 1
            times[key].append(owner.event.ms)
            if key not in facts:
                place = owner.place
                facts[key] = {"module": place.module, "source": place.source} if place is not None else {}
                if phase == "forward" and owner.number is not None:
                    facts[key] |= described[owner.number]
    return [
        Operation(op=key[1], phase=key[0], calls=1, self_ms=statistics.median(ms), share=0.0, **facts[key])
        for key, ms in times.items()
    ]


def phases_of(calls: Sequence[Event]) -> list[Phase]:
    """Medians over the calls, each phase by itself; shares of their sum."""
    ms = {
        phase: statistics.median(
            sum(last - first for name, first, last in spans(call) if name == phase) / 1e6 for call in calls
        )
        for phase in PHASES
    }
    whole = sum(ms.values())
    return [Phase(name=phase, ms=ms[phase], share=ms[phase] / whole if whole else 0.0) for phase in PHASES]
