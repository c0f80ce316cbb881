"""Products whose sizes do not fit the tensor cores' tiles, by the kernels' own names or by recorded shapes."""

from __future__ import annotations

import re

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import ProductRow, RankTrace
from optimizer.diagnosing.traces.trace_rule import Claim, GpuRule, costliest, kernels

MIN_SHARE = 0.02
ALIGNED_TO = {"float": 4, "c10::Half": 8, "c10::BFloat16": 8, "c10::Float8_e4m3fn": 16, "c10::Float8_e5m2": 16}
POORLY = re.compile(r"_align[12]\b")


@register_rule
class MisalignedGemm(GpuRule):
    name = "misaligned_gemm"
    threshold = (
        "products with sizes that are no multiples of 8 (float16), 16 (float8) or 4 (TF32) for 2 % of the "
        'time (NVIDIA"s guide for matrix products)'
    )

    def look(self, rank: RankTrace) -> Claim | None:
        takes = kernels(rank, lambda row: bool(POORLY.search(row.name)))
        products = [row for row in rank.product_rows if _misaligned(row)]
        flops = sum(row.flops for row in rank.product_rows)
        share = sum(row.flops for row in products) / flops if flops else 0.0
        if not takes and share:
            takes = kernels(rank, lambda row: row.kind == "gemm" and "fp32_simt" not in row.marks, share)
        if sum(takes.values()) < MIN_SHARE * rank.span_ms:
            return None
        shapes = {
            f"[{row.m}, {row.k}] x [{row.k}, {row.n}] {row.dtype}": row.calls
            for row in sorted(products, key=lambda row: -row.flops)[:5]
        }
        return Claim(
            title=f"Products with sizes that do not fit take {sum(takes.values()) / rank.span_ms:.0%} of the time",
            evidence={
                "misaligned_share_of_flops": round(share, 4),
                "shapes": shapes,
                "kernels_ms": costliest(rank, lambda row: bool(POORLY.search(row.name))),
            },
            takes=takes,
            recovers=(0.1, 0.5),
            model="kernels that load single elements reach 50 to 90 % of those that load 16 bytes at once",
            steps=(
                "Pad the sizes: features, vocabulary and batch to multiples of 8 (16 in float8).",
                "Or let the compiler pad: torch.compile with torch._inductor.config.shape_padding = True.",
            ),
        )


def _misaligned(row: ProductRow) -> bool:
    unit = ALIGNED_TO.get(row.dtype)
    return unit is not None and min(row.m, row.n, row.k) > 1 and any(size % unit for size in (row.n, row.k))
