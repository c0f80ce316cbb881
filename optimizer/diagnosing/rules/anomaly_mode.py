"""Every gradient is checked for NaN, and the host waits for each answer: autograd's anomaly mode is on.

Silent where fewer than half of backward's nodes are checked: a check of the loss alone is no matter.
"""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.recomputing import IN_BACKWARD
from optimizer.diagnosing.traces.trace_rule import LOW, Claim, GpuRule, idle

MIN_SHARE, MIN_NODES = 0.5, 10
CHECK = "aten::isnan"
ACCUMULATES = "AccumulateGrad"  # it hands no gradient on, and is not checked


@register_rule
class AnomalyMode(GpuRule):
    name = "anomaly_mode"
    threshold = "isnan is called for at least half of backward's nodes (what PyTorch's engine does in anomaly mode)"

    def look(self, rank: RankTrace) -> Claim | None:
        nodes = sum(
            row.calls
            for row in rank.operation_rows
            if row.name.startswith(IN_BACKWARD) and not row.name.endswith(ACCUMULATES)
        )
        checks = rank.calls_of(CHECK)
        if nodes < MIN_NODES or checks < MIN_SHARE * nodes:
            return None
        waits = sum(row.blocking_calls for row in rank.call_rows)
        part = min(1.0, checks / waits) if waits else 0.0
        takes = {pool: ms * part for pool, ms in idle(rank, "synchronization").items()}
        return Claim(
            title=f"Every gradient is checked for NaN, {checks / rank.per_step:.0f} times a step: anomaly mode is on",
            evidence={
                "checks_per_step": round(checks / rank.per_step, 1),
                "backward_nodes_per_step": round(nodes / rank.per_step, 1),
                "synchronizations_per_step": round(waits / rank.per_step, 1),
            },
            takes=takes,
            recovers=(0.8, 1.0),
            model="idle time after the waits that the checks cause; without them 80 % to all of it is gone",
            severity=None if sum(takes.values()) >= LOW * rank.span_ms else "low",
            steps=(
                "Leave torch.autograd.set_detect_anomaly(True) and detect_anomaly() out beyond debugging.",
                "Check the loss alone, every hundred steps; switch the mode on when it is not finite.",
            ),
        )
