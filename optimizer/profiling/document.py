"""The operation table of a profile as the result document has it. Imports no torch: `optimizer.result` hands it on."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


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
    idle_cpu_ms_per_call: float | None = Field(
        default=None, description="CPU time that threads went on using after a call, while nothing was asked of them"
    )
    threads_ms: dict[int, float] = Field(
        default_factory=dict, description="median of single calls by number of threads, in one process; not judged"
    )
    denormals_gain: float | None = Field(
        default=None, description="time on one thread with denormal floats kept / with them flushed to zero"
    )
