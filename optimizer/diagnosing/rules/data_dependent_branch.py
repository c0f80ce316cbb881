"""A Python branch or loop depends on the values of a tensor: there is no one graph. Silent for branches on sizes."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.diagnosing.base import Evidence, Rule, register_rule
from optimizer.diagnosing.graphs.refusals import refusal, told
from optimizer.result import Finding


@register_rule
class DataDependentBranch(Rule):
    name = "data_dependent_branch"

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        problem = refusal(evidence, "capturing:user:data-dependent-branch")
        if problem is not None:
            yield told(
                self,
                problem,
                "A Python branch or loop depends on the values of a tensor",
                steps=("A loop until something converges: run a fixed number of rounds, and mask what is done.",),
            )
