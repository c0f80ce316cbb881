"""Compiled code falls into several regions, with Python between them. Silent with one region."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.recompiles import compilations
from optimizer.diagnosing.traces.trace_rule import Claim, GpuRule, idle

MIN_REGIONS = 3


@register_rule
class GraphBreaks(GpuRule):
    name = "graph_breaks"
    threshold = (
        "more than two compiled regions run in a step (torch.compile's own ids; separate models count as "
        "well: a proposal)"
    )

    def look(self, rank: RankTrace) -> Claim | None:
        frames = compilations(rank)
        if len(frames) < MIN_REGIONS:
            return None
        calls = sum(rank.regions.values()) / rank.per_step
        return Claim(
            title=f"Compiled code falls into {len(frames)} regions: {calls:.0f} calls a step, with Python between them",
            evidence={"regions": len(frames), "region_calls_per_step": round(calls, 1)},
            takes=idle(rank, "host_other"),
            recovers=(0.2, 0.8),
            model="idle time in which the host was outside of operations; one region leaves 20 to 80 % of it",
            steps=(
                "Find the breaks and their lines: TORCH_LOGS=graph_breaks, or torch.compile(fullgraph=True).",
                "Move prints, .item() and data-dependent branches out of the compiled code.",
            ),
        )
