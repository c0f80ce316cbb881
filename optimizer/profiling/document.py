"""The operation table of a profile as the result document has it. Imports no torch: `optimizer.result` hands it on."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MOST_SPANS = 20_000
PhaseName = Literal["forward", "backward", "optimizer"]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class GraphNode(_Model):
    """A node of the graph that an engine was given."""

    node: str
    op: str | None = Field(default=None, description="null: a name that the engine made up, which is not in the graph")
    module: str | None = None
    source: str | None = None


class Operation(_Model):
    """One row of the operation table of a profile."""

    op: str
    module: str | None = None
    source: str | None = None
    calls: int = Field(description="in one call of the model")
    self_ms: float = Field(description="of one call of the model: all these calls together")
    share: float
    nodes: list[GraphNode] = Field(
        default_factory=list, description="of an engine's own operation: the graph's nodes in it, where the engine says"
    )
    shapes: list[list[int]] = Field(default_factory=list)
    dtypes: list[str] = Field(default_factory=list)
    flops: int | None = None
    bytes: int | None = None
    attainable_share: float | None = Field(default=None, description="roofline's shortest time / the time taken")
    phase: PhaseName | None = Field(default=None, description="of a training step")


class Phase(_Model):
    """One part of a training step; clearing the gradients belongs to the optimizer's."""

    name: PhaseName
    ms: float = Field(description="under the profiler; median over the profiled steps")
    share: float = Field(description="of these steps")


class PhaseSpan(_Model):
    """When a part of a training step was at work, on the memory's own clock."""

    name: PhaseName
    from_ms: float
    to_ms: float


class OperationSpan(_Model):
    """One operation of one recorded call."""

    op: str
    module: str | None = None
    source: str | None = None
    phase: PhaseName | None = None
    at_ms: float = Field(description="since the call began")
    ms: float


class MemoryOwner(_Model):
    """What one operation asked for and what was still alive at the peak."""

    op: str
    module: str | None = None
    source: str | None = None
    phase: PhaseName | None = None
    bytes: int
    share: float = Field(description="of what the call holds at the peak")
    tensors: int = Field(description="allocations")


class MemoryTimeline(_Model):
    """Memory over one call: what PyTorch's allocator gave out during the call and has not got back."""

    points: list[tuple[float, int]] = Field(
        max_length=2_000, description="(milliseconds since the call began, bytes); holds from there to the next"
    )
    peak_bytes: int = Field(description="of the call, beside what is resident")
    peak_at_ms: float
    resident_bytes: int = Field(description="weights, buffers, inputs and the optimizer's state: there all the time")
    owners: list[MemoryOwner] = Field(default_factory=list, description="at the peak, the largest first")
    phases: list[PhaseSpan] = Field(default_factory=list, description="of a training step")
    how_obtained: str = ""
    profiled_ms: float = Field(description="of the call whose memory was recorded")
    overhead: float | None = Field(default=None, description="profiled time / unprofiled time")


class Profile(_Model):
    """Measured, in a process of its own under a profiler: its times are not the judged ones."""

    operations: list[Operation] = Field(default_factory=list)
    total_ms: float
    page_faults_per_call: float | None = None
    roofs: dict[str, Any] = Field(default_factory=dict, description="bandwidth_bytes_per_s, gemm_flops_per_s by dtype")
    candidate: str | None = Field(default=None, description="whose profile it is")
    how_obtained: str = Field(default="", description="by what means, and where what ran is not the judged artifact")
    profiled_ms: float | None = Field(default=None, description="median of single calls under the profiler")
    unprofiled_ms: float | None = Field(
        default=None, description="median of single calls in the same process without it; no judged figure"
    )
    overhead: float | None = Field(default=None, description="profiled time / unprofiled time")
    took_s: float | None = Field(default=None, description="all of the profiling, unprofiled calls included")
    phases: list[Phase] = Field(default_factory=list, description="of a training step")
    memory: MemoryTimeline | None = Field(default=None, description="of one call; null where the engine does not say")
    timeline: list[OperationSpan] = Field(
        default_factory=list, max_length=MOST_SPANS, description="of one call; only where it was asked for"
    )
    idle_cpu_ms_per_call: float | None = Field(
        default=None, description="CPU time that threads went on using after a call, while nothing was asked of them"
    )
    threads_ms: dict[int, float] = Field(
        default_factory=dict, description="median of single calls by number of threads, in one process; not judged"
    )
    denormals_gain: float | None = Field(
        default=None, description="time on one thread with denormal floats kept / with them flushed to zero"
    )
