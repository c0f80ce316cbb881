"""Products and convolutions in float32 outside of the tensor cores, on a GPU that has TF32. Silent on older GPUs."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import KernelRow, RankTrace
from optimizer.diagnosing.traces.hardware import compute_capability
from optimizer.diagnosing.traces.trace_rule import LOW, Claim, GpuRule, compute_share, costliest, kernels


@register_rule
class Fp32GemmWithoutTf32(GpuRule):
    name = "fp32_gemm_without_tf32"
    threshold = (
        "float32 kernels outside of tensor cores (sgemm, scudnn) for at least 0.5 % of the time on compute "
        "capability 8.0 or later (a proposal)"
    )

    def look(self, rank: RankTrace) -> Claim | None:
        capability = compute_capability(rank)
        takes = kernels(rank, _is_simt)
        if capability is None or capability < (8, 0) or sum(takes.values()) < LOW * rank.span_ms:
            return None
        return Claim(
            title=f"Products in plain float32 take {sum(takes.values()) / rank.span_ms:.1%} of the time, without TF32",
            evidence={
                "fp32_simt_share_of_compute": round(compute_share(rank, _is_simt), 4),
                "compute_capability": f"{capability[0]}.{capability[1]}",
                "kernels_ms": costliest(rank, _is_simt),
            },
            takes=takes,
            recovers=(0.4, 0.8),
            model="TF32 has eight times the peak of float32 on an A100; a product that fits reaches two to five times",
            steps=(
                'Allow TF32: torch.set_float32_matmul_precision("high"), torch.backends.cudnn.allow_tf32 = True.',
                "Or run under torch.autocast(dtype=torch.bfloat16).",
            ),
        )


def _is_simt(row: KernelRow) -> bool:
    return "fp32_simt" in row.marks
