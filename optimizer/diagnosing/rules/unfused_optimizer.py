"""An optimizer that goes through the parameters one by one. Silent up to 100 operations in place a step."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.facts import OPTIMIZER_OPERATIONS
from optimizer.diagnosing.traces.trace_rule import Claim, GpuRule, kernels, sources, waiting_for_launches

MIN_PER_STEP = 100


@register_rule
class UnfusedOptimizer(GpuRule):
    name = "unfused_optimizer"
    threshold = "more than 100 add_, mul_, addcmul_, addcdiv_ and the like a step (a proposal; 404 to 808 seen)"

    def look(self, rank: RankTrace) -> Claim | None:
        rows = [row for row in rank.operation_rows if row.name in OPTIMIZER_OPERATIONS]
        per_step = sum(row.calls for row in rows) / rank.per_step
        if per_step <= MIN_PER_STEP:
            return None
        whole = sum(row.total_ms for row in rank.kernel_rows if row.kind == "elementwise")
        on_gpu = sum(row.gpu_ms for row in rows)
        takes = kernels(rank, lambda row: row.kind == "elementwise", min(1.0, on_gpu / whole) if whole else 0.0)
        takes |= waiting_for_launches(rank, sum(row.calls for row in rows) / rank.kernels)
        return Claim(
            title=f"{per_step:.0f} small operations in place a step: the optimizer is not fused",
            evidence={
                "optimizer_inplace_ops_per_step": round(per_step, 1),
                "sources": sources(rank, *OPTIMIZER_OPERATIONS),
                "calls_per_step": {row.name: round(row.calls / rank.per_step, 1) for row in rows},
                "gpu_ms": round(on_gpu, 3),
                "in_optimizer_step_ms": round(rank.optimizer_ms, 3),
            },
            takes=takes,
            recovers=(0.5, 0.9),
            model="one kernel over all parameters in place of some for each: half to 90 % of kernels and launches",
            steps=(
                "Construct it with fused=True (Adam, AdamW, SGD, Adagrad) or foreach=True.",
                "Or compile the step: torch.compile(optimizer.step).",
                "num_batches_tracked.add_ of batch norms counts too: torch.compile fuses it away.",
            ),
        )
