"""Code is compiled again while the model runs. Silent without a second compilation of any frame."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.recompiles import compilations, recompiles
from optimizer.diagnosing.traces.trace_rule import LOW, Claim, GpuRule, idle


@register_rule
class Recompiles(GpuRule):
    name = "recompiles"
    threshold = (
        "a frame is compiled a second time, or compiling takes more than 0.5 % of the span (torch.compile's "
        "own ids: frame/compilation)"
    )

    def look(self, rank: RankTrace) -> Claim | None:
        again = {f"frame {frame}": times for frame, times in sorted(compilations(rank).items()) if times > 1}
        if not again and rank.compiling_ms < LOW * rank.span_ms:
            return None
        waited = rank.idle.host_operations_ms + rank.idle.host_other_ms
        part = min(1.0, rank.compiling_ms / waited) if waited else 0.0
        return Claim(
            title=f"{recompiles(rank)} recompilations; {rank.compiling_ms:,.0f} ms of the trace went into compiling",
            evidence={
                "recompiles": recompiles(rank),
                "compilations": again,
                "compiling_ms": round(rank.compiling_ms, 3),
            },
            takes={pool: ms * part for pool, ms in idle(rank, "host_operations", "host_other").items()},
            recovers=(0.8, 1.0),
            model="idle time that compiling can explain; after the last recompilation it is gone",
            severity="low" if not rank.compiling_ms else None,
            steps=(
                "Find the guard that fails: TORCH_LOGS=recompiles.",
                "Mark sizes that vary: torch._dynamo.mark_dynamic(x, 0), or torch.compile(dynamic=True).",
                "Warm up with all shapes before the steps that count.",
            ),
        )
