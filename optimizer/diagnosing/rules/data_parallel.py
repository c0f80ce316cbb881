"""One process drives several GPUs (DataParallel), or GPUs talk over a backend for CPUs."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.trace_rule import Claim, GpuRule, idle

CPU_BACKENDS = ("gloo", "mpi")


@register_rule
class DataParallel(GpuRule):
    name = "data_parallel"
    threshold = (
        "more than one GPU in the trace of one process, or a distributed backend for CPUs (PyTorch's profiler"
        " plug-in for TensorBoard)"
    )

    def look(self, rank: RankTrace) -> Claim | None:
        several = len(rank.devices) > 1
        by_cpu = (rank.backend or "").lower() in CPU_BACKENDS and (rank.world_size or 1) > 1
        if not (several or by_cpu):
            return None
        what = f"One process drives {len(rank.devices)} GPUs" if several else f"GPUs talk over {rank.backend}"
        return Claim(
            title=f"{what}: the host is in the way",
            evidence={"devices": rank.devices, "backend": rank.backend, "world_size": rank.world_size},
            takes=idle(rank, "host_operations", "host_other", "launching"),
            recovers=(0.3, 0.8),
            model="idle time in which the host was behind; a process for each GPU gives back 30 to 80 %",
            severity=None if several else "medium",
            steps=(
                "Use DistributedDataParallel with one process a GPU (torchrun) in place of DataParallel.",
                'Initialize with init_process_group("nccl").',
            ),
        )
