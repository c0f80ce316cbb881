"""Backward computes the forward pass again (checkpointed activations). Silent under 5 % of computing.

Silent, too, where memory is known to be short: then it is what makes the model fit.
"""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.trace_rule import Claim, GpuRule, compute_ms, kernels

MIN_SHARE, MOST_TAKEN = 0.05, 0.8


@register_rule
class Recomputation(GpuRule):
    name = "recomputation"
    threshold = (
        "forward operations within backward take more than 5 % of the computing kernels' time, and no more than "
        "80 % of the GPU's memory is known to be reserved (what torch.utils.checkpoint does; a proposal)"
    )

    def look(self, rank: RankTrace) -> Claim | None:
        whole, again_ms = compute_ms(rank), sum(rank.recomputed_ms.values())
        share = again_ms / whole if whole else 0.0
        reserved, total = rank.peak_reserved_bytes, rank.device.memory_bytes
        taken = reserved / total if reserved and total else None
        if share <= MIN_SHARE or (taken is not None and taken > MOST_TAKEN):
            return None
        takes: dict[str, float] = {}
        for kind, ms in rank.recomputed_ms.items():
            of_kind = rank.kind_ms(kind)
            takes |= kernels(rank, lambda row, kind=kind: row.kind == kind, ms / of_kind) if of_kind else {}  # type: ignore[misc]
        spare = "memory is there for" if taken is not None else "memory that the trace does not tell may hold"
        return Claim(
            title=f"Backward computes forward operations again: {share:.0%} of the computing time",
            evidence={
                "recomputed_share_of_compute": round(share, 4),
                "recomputed_ms_by_kind": {kind: round(ms, 3) for kind, ms in rank.recomputed_ms.items()},
                "recomputed_calls_per_step": {
                    name: round(calls / rank.per_step, 2) for name, calls in rank.recomputed_calls.items()
                },
                "peak_reserved_share": round(taken, 4) if taken is not None else None,
            },
            takes=takes,
            recovers=(0.5, 1.0) if taken is not None else (0.0, 1.0),
            model=f"time of what is computed twice; {spare} {'half to all' if taken is not None else 'none to all'} of "
            "what was not kept",
            steps=(
                "Checkpoint only the layers that keep most for their time (attention), not every block.",
                "Keep what is dear to compute: torch.utils.checkpoint's context_fn with "
                "create_selective_checkpoint_contexts saves products and recomputes the rest.",
                "Record with profile_memory=True: how much memory is left then stands in the trace.",
            ),
        )
