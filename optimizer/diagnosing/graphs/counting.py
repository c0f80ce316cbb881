"""Time that several findings on a graph claim is counted once: those that give back most come first."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import PrivateAttr

from optimizer.capturing.outline import OutlineNode
from optimizer.diagnosing.graphs.view import GraphView
from optimizer.result import Finding


class GraphFinding(Finding):
    """A finding that remembers whose time it claims; that is no part of the document."""

    _nodes: tuple[OutlineNode, ...] = PrivateAttr(default=())
    _recovers: tuple[float, float] = PrivateAttr(default=(0.0, 0.0))

    def claiming(self, nodes: Sequence[OutlineNode], part: float, recovers: tuple[float, float]) -> GraphFinding:
        """`recovers`: of that part of the nodes' time."""
        self._nodes, self._recovers = tuple(nodes), (part * recovers[0], part * recovers[1])
        return self


def count(findings: Sequence[Finding], graph: GraphView) -> None:
    """Fills `counted_share`; nothing where no profile tells any time."""
    claims = [one for one in findings if isinstance(one, GraphFinding) and one.cost_share is not None]
    shares_of = {one.rule: {node.name: graph.share([node]) or 0.0 for node in one._nodes} for one in claims}
    claims.sort(key=lambda one: (-sum(one._recovers) * sum(shares_of[one.rule].values()), one.rule))
    left: dict[str, float] = {}
    for claim in claims:
        low, high = claim._recovers
        shares = shares_of[claim.rule]
        whole = sum(shares[name] * left.get(name, 1.0) for name in shares)
        claim.counted_share = round(whole * (low + high) / 2, 4)
        for name in shares:
            left[name] = left.get(name, 1.0) * (1 - high)
