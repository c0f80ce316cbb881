"""Code that would be compiled again and again over the declared shapes. Silent up to 8 combinations that a size serves.

Also where the code itself fixes a size that the workload declares as dynamic: each other size is another program.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from optimizer.diagnosing.base import Evidence, Rule, register_rule
from optimizer.diagnosing.graphs.refusals import refusal, told
from optimizer.result import Finding

LIMIT = 8  # torch._dynamo.config.recompile_limit: beyond it the code runs uncompiled, without a word
FIXED_BATCH = "Shapes are static, the batch size too: the code "  # the capture's own words


@register_rule
class RecompileRisk(Rule):
    name = "recompile_risk"
    threshold = "more than 8 combinations of the sizes that are served (torch.compile's recompile_limit, its default)"

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        problem = refusal(evidence, "capturing:user:dim-refused")
        if problem is not None:
            dims, why = problem.context.get("dims"), problem.context.get("text")
            yield told(self, problem, f"The code does not work for every declared size of {dims}: {why}")
        for note in evidence.notes:
            if note.startswith(FIXED_BATCH):
                yield self._fixed(note)
        if evidence.workload is not None:
            served = {name: sorted(set(dim.serve)) for name, dim in evidence.workload.dims.items()}
            combinations = math.prod(len(sizes) for sizes in served.values())
            if combinations > LIMIT:
                yield self._many(combinations, served)

    def _fixed(self, note: str) -> Finding:
        why = note.removeprefix("Shapes are static, the batch size too: ")
        line = re.search(r" \(([^()]+:\d+)\)$", why)
        steps = ["Take the size from x.shape where it is needed, in place of a number."]
        return Finding(
            rule=self.name,
            severity="low",
            title=f"Each other batch size would be compiled anew: {why}",
            evidence={"sources": [line[1]] if line else [], "note": note},
            remedy=" ".join(steps),
            threshold="torch.export finds a size fixed by the code (its own refusal)",
            steps=steps,
        )

    def _many(self, combinations: int, served: dict[str, list[int]]) -> Finding:
        steps = [
            "Mark the sizes that vary (torch._dynamo.mark_dynamic), or compile once with dynamic=True.",
            "Or serve fewer: round lengths up to a few buckets, and compile each before it serves.",
        ]
        return Finding(
            rule=self.name,
            severity="low",
            title=f"{combinations} combinations of sizes are served: code for fixed shapes is compiled for each",
            evidence={"combinations": combinations, "served": served, "recompile_limit": LIMIT},
            remedy=" ".join(steps),
            threshold=self.threshold,
            steps=steps,
        )
