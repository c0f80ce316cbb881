"""What the reader of a trace answers: one document for each rank, bounded, which the coordinator validates.

Times in milliseconds over the whole trace; counts over the whole trace. No torch, no numpy: rules work on it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

SHORT_US = 10.0
MAX_ROWS = 3_000
BINS = 120  # of a timeline: a bar each on a screen


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Device(_Model):
    """A GPU as the trace's header has it."""

    name: str = ""
    compute_capability: tuple[int, int] | None = None
    multiprocessors: int | None = None
    memory_bytes: int | None = None


class KernelRow(_Model):
    """All launches of one kernel, copy or set."""

    name: str
    kind: str = Field(description="gemm, convolution, elementwise, communication, ..., memcpy, memset")
    marks: list[str] = Field(default_factory=list)
    calls: int
    total_ms: float
    blocks_per_sm: float | None = Field(default=None, description="mean over its time")
    occupancy_percent: float | None = Field(default=None, description="estimated by the profiler; mean over its time")
    underfilled_ms: float = Field(
        default=0.0, description="time of its launches with fewer blocks than the GPU has SMs"
    )


class OperationRow(_Model):
    """All calls of one operation of the host (`aten::mm`)."""

    name: str
    calls: int
    total_ms: float
    self_ms: float = Field(description="on the host, without the operations that it calls")
    gpu_ms: float = Field(default=0.0, description="of what it launched itself")
    sources: dict[str, int] = Field(default_factory=dict, description="calls by line, where stacks were recorded")


class CallRow(_Model):
    """All calls of one function of the runtime (`cudaLaunchKernel`)."""

    name: str
    calls: int
    total_ms: float
    blocking_calls: int = Field(default=0, description="calls that wait for the GPU")
    blocking_ms: float = 0.0


class CopyRow(_Model):
    """Copies of one direction and memory kind (`HtoD pageable`)."""

    kind: str
    calls: int
    total_ms: float
    bytes: int


class CollectiveRow(_Model):
    """All kernels of one collective with one size."""

    kind: str
    kernel: str
    calls: int
    total_ms: float
    exposed_ms: float
    bytes: int = Field(description="of one call; 0: not told")
    group: int = Field(default=0, description="ranks taking part; 0: not told")
    shortest_us: float = Field(default=0.0, description="of one call")
    bandwidth_bytes_per_s: float | None = None


class Collective(_Model):
    """One kernel of a collective, for comparing ranks."""

    key: str = Field(description="kernel and bytes")
    start_us: float
    duration_us: float


class ProductRow(_Model):
    """Matrix products of one shape."""

    batch: int
    m: int
    n: int
    k: int
    dtype: str
    calls: int
    flops: float


class PaddingRow(_Model):
    """All calls of one operation that pads sequences to one length."""

    operation: str
    calls: int
    positions: int = Field(description="after padding")
    filled: int = Field(description="of them, those that hold something")


class Idle(_Model):
    """Why no GPU worked, as far as the host's side tells: these add up to the idle time."""

    data_loading_ms: float = Field(default=0.0, description="a DataLoader was at work")
    synchronization_ms: float = Field(default=0.0, description="the host had waited for the GPU and began anew")
    host_operations_ms: float = Field(default=0.0, description="the host was in operations and calls, and behind")
    host_other_ms: float = Field(default=0.0, description="the host was in none: Python, or what is not traced")
    launching_ms: float = Field(default=0.0, description="the launch had begun, the work had not")
    queued_ms: float = Field(default=0.0, description="launched before, and waiting for an event or another GPU")

    def total_ms(self) -> float:
        return (
            self.data_loading_ms
            + self.synchronization_ms
            + self.host_operations_ms
            + self.host_other_ms
            + self.launching_ms
            + self.queued_ms
        )


Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Timeline(_Model):
    """The span in equal bins, and what share of each bin was what. `idle`'s causes: spread evenly over each gap."""

    bin_ms: float = Field(gt=0.0)
    compute: list[Share] = Field(max_length=BINS, description="a kernel that is no communication ran")
    communication: list[Share] = Field(max_length=BINS, description="nothing but communication ran")
    copies: list[Share] = Field(max_length=BINS, description="nothing but copies and sets ran")
    idle: dict[str, Annotated[list[Share], Field(max_length=BINS)]] = Field(description="by the causes of Idle")


class RankTrace(_Model):
    """One rank. `span_ms`: first start to last end of anything on a GPU; of a trace without GPU, of the operations."""

    name: str
    rank: int | None = None
    world_size: int | None = None
    backend: str | None = None
    devices: list[int] = Field(default_factory=list, description="GPUs with events")
    device: Device = Field(default_factory=Device)
    events: int
    malformed: int = 0
    steps: int = 0
    steps_ms: float = Field(default=0.0, description="union of the steps")
    span_ms: float = 0.0
    busy_ms: float = 0.0
    kernels: int = 0
    kernels_under_10us: int = 0
    kernel_ms: float = Field(default=0.0, description="summed, also where they overlap")
    communication_ms: float = Field(default=0.0, description="union")
    exposed_ms: float = Field(default=0.0, description="of it, what no other kernel covers")
    data_loading_ms: float = Field(default=0.0, description="union of the events of a DataLoader")
    idle: Idle = Field(default_factory=Idle)
    timeline: Timeline | None = Field(default=None, description="none of a trace without GPU")
    kernel_rows: list[KernelRow] = Field(default_factory=list)
    operation_rows: list[OperationRow] = Field(default_factory=list)
    call_rows: list[CallRow] = Field(default_factory=list)
    copy_rows: list[CopyRow] = Field(default_factory=list)
    collective_rows: list[CollectiveRow] = Field(default_factory=list)
    collectives: list[Collective] = Field(default_factory=list)
    product_rows: list[ProductRow] = Field(default_factory=list)
    doubles: dict[str, int] = Field(default_factory=dict, description="calls with a float64 tensor, by operation")
    launch_blocking_share: float | None = Field(default=None, description="launches that returned after their kernel")
    launch_delay_us: float | None = Field(default=None, description="median from the launch to the kernel, queue empty")
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    reserved_at_peak_bytes: int | None = None
    regions: dict[str, int] = Field(default_factory=dict, description="calls of compiled regions, by name")
    compiling_ms: float = 0.0
    collecting_ms: float = Field(default=0.0, description="Python's garbage collector")
    optimizer_ms: float = Field(default=0.0, description="host, within Optimizer.step")
    recomputed_ms: dict[str, float] = Field(
        default_factory=dict, description="of kernels whose operation is a forward one within backward, by kind"
    )
    recomputed_calls: dict[str, int] = Field(default_factory=dict, description="calls of these operations")
    paces: list[float] = Field(default_factory=list, description="by step: its products' time over a fast step's")
    padding_rows: list[PaddingRow] = Field(default_factory=list)
    on_padding: dict[str, int] = Field(default_factory=dict, description="calls on something padded, by operation")

    @property
    def per_step(self) -> int:
        """What counts are divided by."""
        return max(1, self.steps)

    @property
    def has_gpu(self) -> bool:
        return bool(self.kernels)

    def calls_of(self, *operations: str) -> int:
        """Calls of these operations over the whole trace."""
        return sum(row.calls for row in self.operation_rows if row.name in operations)

    def marked_ms(self, mark: str) -> float:
        return sum(row.total_ms for row in self.kernel_rows if mark in row.marks)

    def kind_ms(self, *kinds: str) -> float:
        return sum(row.total_ms for row in self.kernel_rows if row.kind in kinds)
