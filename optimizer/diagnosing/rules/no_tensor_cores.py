"""Matrix products and convolutions, and none of them on tensor cores. Silent where the GPU has none, or is not told."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import KernelRow, RankTrace
from optimizer.diagnosing.traces.hardware import compute_capability
from optimizer.diagnosing.traces.trace_rule import LOW, Claim, GpuRule, compute_share, costliest, kernels


@register_rule
class NoTensorCores(GpuRule):
    name = "no_tensor_cores"
    threshold = (
        'no kernel on tensor cores, and products or convolutions on a GPU that has them (PyTorch"s profiler '
        "plug-in for TensorBoard)"
    )

    def look(self, rank: RankTrace) -> Claim | None:
        capability = compute_capability(rank)
        on_tensor_cores = rank.marked_ms("tensor_core") + rank.marked_ms("also_tensor_core")
        takes = kernels(rank, _eligible)
        if capability is None or capability < (7, 0) or on_tensor_cores or sum(takes.values()) < LOW * rank.span_ms:
            return None
        share = sum(takes.values()) / rank.span_ms
        has_tf32 = capability >= (8, 0)
        return Claim(
            title=f"Products and convolutions take {share:.0%} of the time, none of them on tensor cores",
            evidence={
                "tensor_core_share": 0.0,
                "eligible_share_of_compute": round(compute_share(rank, _eligible), 4),
                "compute_capability": f"{capability[0]}.{capability[1]}",
                "kernels_ms": costliest(rank, _eligible),
            },
            takes=takes,
            recovers=(0.4, 0.75),
            model="these kernels in half precision on tensor cores take a quarter to 60 % of their time",
            steps=(
                "Run under torch.autocast: float16 with a gradient scaler; bfloat16 from capability 8.0 on.",
                *(['Or keep float32 and allow TF32: torch.set_float32_matmul_precision("high").'] if has_tf32 else []),
                "Keep sizes multiples of 8.",
            ),
        )


def _eligible(row: KernelRow) -> bool:
    return row.kind in ("gemm", "convolution", "attention") and "double" not in row.marks
