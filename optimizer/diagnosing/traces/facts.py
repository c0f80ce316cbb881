"""The facts of a job's traces as one flat object: figures with their units in the names.

Times and counts are added over ranks before anything is divided, so that a share of several ranks is that of all of
them together. What a trace without GPU cannot say is null, not zero.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.recompiles import recompiles

FUSED_OPTIMIZER = re.compile(r"_fused_(?:adam|sgd|adagrad)|_foreach_|multi_tensor_apply|Fused(?:Adam|SGD|LAMB)")
# what an optimizer that is not fused calls for each parameter
MANY_INPLACE = 100
OPTIMIZER_OPERATIONS = tuple(f"aten::{op}_" for op in ("add", "mul", "addcmul", "addcdiv", "lerp", "sqrt", "div"))


def share(part: float, whole: float) -> float | None:
    return round(part / whole, 6) if whole > 0 else None


def facts(ranks: Sequence[RankTrace]) -> dict[str, Any]:
    """`ranks` is not empty."""

    def total(figure: Callable[[RankTrace], float]) -> float:
        return sum(figure(rank) for rank in ranks)

    span, kernel_ms = total(lambda r: r.span_ms if r.has_gpu else 0.0), total(lambda r: r.kernel_ms)
    kernels, steps = int(total(lambda r: r.kernels)), int(total(lambda r: r.steps))
    exposed, communication = total(lambda r: r.exposed_ms), total(lambda r: r.communication_ms)
    loading, steps_ms = total(lambda r: r.data_loading_ms), total(lambda r: r.steps_ms)
    found: dict[str, Any] = {
        "ranks": len(ranks),
        "world_size": max((rank.world_size or 0 for rank in ranks), default=0) or None,
        "devices": len({(at, device) for at, rank in enumerate(ranks) for device in rank.devices}),
        "device_names": sorted({rank.device.name for rank in ranks if rank.device.name}),
        "events": int(total(lambda r: r.events)),
        "steps": max(rank.steps for rank in ranks),
        "span_ms": round(max(rank.span_ms for rank in ranks), 3),
        "step_ms": round(steps_ms / steps, 3) if steps else None,
        "gpu_busy_share": share(total(lambda r: r.busy_ms), span),
        "gpu_idle_share": share(total(lambda r: r.span_ms - r.busy_ms if r.has_gpu else 0.0), span),
        "kernels": kernels,
        "kernels_under_10us_share": share(total(lambda r: r.kernels_under_10us), kernels),
        "kernel_ms": round(kernel_ms, 3),
        "comm_exposed_share": (share(exposed, communication) if communication else 0.0) if kernels else None,
        "comm_span_share": share(exposed, span),
        "comm_kernel_share": share(total(lambda r: r.marked_ms("communication")), kernel_ms),
        "dataloader_share": share(loading, steps_ms) if steps_ms else (0.0 if not loading else None),
    }
    for mark in ("gemm", "tensor_core", "fp32_simt", "embedding", "layout"):
        found[f"{mark}_share"] = share(total(lambda r, mark=mark: r.marked_ms(mark)), kernel_ms)  # type: ignore[misc]
    found["kernel_kind_share"] = {
        kind: share(ms, kernel_ms) for kind, ms in sorted(_kinds(ranks).items(), key=lambda item: -item[1])
    }
    found |= {
        f"idle_{cause}_share": share(total(lambda r, f=cause: getattr(r.idle, f"{f}_ms")), span)  # type: ignore[misc]
        for cause in ("data_loading", "synchronization", "host_operations", "host_other", "launching", "queued")
    }
    found |= _copies(ranks) | _host(ranks)
    return found


def _kinds(ranks: Sequence[RankTrace]) -> Counter[str]:
    kinds: Counter[str] = Counter()
    for rank in ranks:
        for row in rank.kernel_rows:
            if row.kind not in ("memcpy", "memset"):
                kinds[row.kind] += row.total_ms  # type: ignore[assignment]  # a Counter of floats
    return kinds


def _copies(ranks: Sequence[RankTrace]) -> dict[str, Any]:
    rows = [row for rank in ranks for row in rank.copy_rows]
    by_kind: Counter[str] = Counter()
    for row in rows:
        by_kind[row.kind.replace(" ", "_").lower()] += row.calls
    pageable = {way: [row for row in rows if row.kind == f"{way} pageable"] for way in ("HtoD", "DtoH")}
    return {
        "memcpy": sum(row.calls for row in rows),
        # from the host to the GPU; the other way round is told apart
        "memcpy_pageable": sum(row.calls for row in pageable["HtoD"]),
        "memcpy_to_pageable": sum(row.calls for row in pageable["DtoH"]),
        "memcpy_pageable_bytes": sum(row.bytes for way in pageable.values() for row in way),
        "memcpy_bytes": sum(row.bytes for row in rows),
        "memcpy_by_kind": dict(sorted(by_kind.items())),
        "memset": sum(row.calls for rank in ranks for row in rank.kernel_rows if row.kind == "memset"),
    }


def _host(ranks: Sequence[RankTrace]) -> dict[str, Any]:
    per_step = sum(rank.per_step for rank in ranks)
    calls: Counter[str] = Counter()
    for rank in ranks:
        for row in rank.operation_rows:
            calls[row.name] += row.calls
    launches = [row for rank in ranks for row in rank.call_rows]
    delays = [rank.launch_delay_us for rank in ranks if rank.launch_delay_us is not None]
    in_optimizer = sum(calls[name] for name in OPTIMIZER_OPERATIONS)
    names = [*calls, *(row.name for rank in ranks for row in rank.kernel_rows)]
    fused = any(FUSED_OPTIMIZER.search(name) for name in names)
    return {
        "synchronizations_per_step": round(_waits(ranks) / per_step, 2),
        "synchronization_ms_per_step": round(sum(row.blocking_ms for row in launches) / per_step, 3),
        "launch_delay_us": round(max(delays), 2) if delays else None,
        "optimizer_inplace_ops_per_step": round(in_optimizer / per_step, 2),
        # null: no optimizer is seen
        "optimizer_fused": False if in_optimizer > MANY_INPLACE * per_step else True if fused else None,
        "recompiles": sum(recompiles(rank) for rank in ranks),
        "ops_per_step": {name: _tidy(count / per_step) for name, count in calls.most_common()},
    }


def _waits(ranks: Sequence[RankTrace]) -> int:
    return sum(row.blocking_calls for rank in ranks for row in rank.call_rows)


def _tidy(value: float) -> float:
    return int(value) if value == int(value) else round(value, 2)
