"""Kernels that only move data: layout conversions, permutes, contiguous copies. Silent up to 10 % of computing."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import KernelRow, RankTrace
from optimizer.diagnosing.traces.trace_rule import Claim, GpuRule, compute_share, costliest, kernels, sources

MIN_SHARE = 0.10
MOVES = ("layout", "permute", "copy")


@register_rule
class LayoutConversions(GpuRule):
    name = "layout_conversions"
    threshold = (
        'layout conversions, permutes and copies within the GPU take more than 10 % of the computing kernels"'
        " time (a proposal; 11 % seen)"
    )

    def look(self, rank: RankTrace) -> Claim | None:
        share = compute_share(rank, _moves)
        if share <= MIN_SHARE:
            return None
        converts = any("nchw" in row.name.lower() for row in rank.kernel_rows if _moves(row))
        first = "Keep one layout: model.to(memory_format=torch.channels_last), and the inputs as well."
        return Claim(
            title=f"Moving data within the GPU takes {share:.0%} of the computing time",
            evidence={
                "moving_share_of_compute": round(share, 4),
                "sources": sources(rank, "aten::copy_", "aten::contiguous", "aten::clone"),
                "copy_per_step": round(rank.calls_of("aten::copy_") / rank.per_step, 1),
                "contiguous_per_step": round(rank.calls_of("aten::contiguous", "aten::clone") / rank.per_step, 1),
                "kernels_ms": costliest(rank, _moves),
            },
            takes=kernels(rank, _moves),
            recovers=(0.4, 0.9),
            model="what a layout that is kept from end to end makes superfluous: 40 to 90 % of these kernels",
            steps=(
                *([first] if converts else []),
                "Look for .contiguous(), .permute() and .t() between layers: store weights as they are used.",
                "torch.compile moves views through elementwise operations.",
            ),
        )


def _moves(row: KernelRow) -> bool:
    return row.kind in MOVES or (row.kind == "memcpy" and "DtoD" in row.name)
