"""The GPU waits for the host, whose kernels are not short: slow operations on the host, or Python between them.

Silent below 10 % of the span, and where the kernels are so short that launching is the cause (`launch_bound`).
"""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.rules.launch_bound import MIN_SHORT
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.trace_rule import Claim, GpuRule, idle

MIN_SHARE = 0.10
MOST_NAMED = 5


@register_rule
class HostWait(GpuRule):
    name = "host_wait"
    threshold = "the GPU waits for the host for more than 10 % of the span (idea: HolisticTraceAnalysis; a proposal)"

    def look(self, rank: RankTrace) -> Claim | None:
        is_short = rank.kernels_under_10us / rank.kernels > MIN_SHORT
        causes = ("host_other",) if is_short else ("host_other", "host_operations", "launching")
        takes = idle(rank, *causes)
        share = sum(takes.values()) / rank.span_ms
        if share < MIN_SHARE:
            return None
        busiest = sorted(rank.operation_rows, key=lambda row: -row.self_ms)[:MOST_NAMED]
        in_python = rank.idle.host_other_ms > rank.idle.host_operations_ms
        where = "outside of any operation (Python, or what was not traced)" if in_python else "in its operations"
        return Claim(
            title=f"The GPU waits for the host for {share:.0%} of the time; the host is mostly {where}",
            evidence={
                "gpu_waits_for_host_share": round(share, 4),
                "idle_host_operations_ms": round(rank.idle.host_operations_ms, 3),
                "idle_host_other_ms": round(rank.idle.host_other_ms, 3),
                "host_busiest_in": {row.name: round(row.self_ms, 3) for row in busiest},
            },
            takes=takes,
            recovers=(0.3, 0.8),
            model="idle time in which the host had not launched yet; a queue that is kept filled gives back 30 to 80 %",
            steps=(
                "Keep the queue filled: torch.compile, and no work between the launches of a step (logging, metrics).",
                "Record once more with with_stack=True: the lines of Python then stand beside the gaps.",
                "Raise the batch size.",
            ),
        )
