"""Time that several findings claim is counted once: those that give back most come first, settings of the process last.

What a finding gives back is what its predicted gain says, so that a correction counts here, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import PrivateAttr

from optimizer.capturing.outline import OutlineNode
from optimizer.diagnosing.graphs.view import GraphView
from optimizer.result import Finding, PredictedGain


class GraphFinding(Finding):
    """A finding that remembers whose time it claims; that is no part of the document."""

    _nodes: tuple[OutlineNode, ...] = PrivateAttr(default=())
    _recovers: tuple[float, float] = PrivateAttr(default=(0.0, 0.0))

    def claiming(self, nodes: Sequence[OutlineNode], part: float, recovers: tuple[float, float]) -> GraphFinding:
        """`recovers`: of that part of the nodes' time."""
        self._nodes, self._recovers = tuple(nodes), (part * recovers[0], part * recovers[1])
        return self

    def recovers_of(self, whole: float) -> tuple[float, float]:
        """Of the nodes' time, which is `whole` of all; as corrected, where that was done."""
        if self.gain is None or self.gain.uncorrected is None or not whole:
            return self._recovers
        low, high = (min(1.0, saved / whole) for saved in given_back(self.gain))
        return low, high


def given_back(gain: PredictedGain) -> tuple[float, float]:
    """Shares of the whole time, of a remedy that would otherwise cost time none."""
    return max(0.0, 1 - 1 / gain.low), max(0.0, 1 - 1 / gain.high)


def count(findings: Sequence[Finding], graph: GraphView | None) -> tuple[float, float] | None:
    """Fills `counted_share`. Least and most of the whole time that all give back together; None where no profile tells
    any time."""
    least, most = _count_in_graph(findings, graph) if graph is not None else (0.0, 0.0)
    settings = [one for one in findings if not isinstance(one, GraphFinding) and one.gain is not None and one.mended_by]
    settings.sort(key=lambda one: (-sum(given_back(one.gain)), one.rule))  # type: ignore[arg-type]
    left = (1 - most, 1 - least)
    for one in settings:
        low, high = given_back(one.gain)  # type: ignore[arg-type]
        # a setting changes all operations alike: of what rewrites leave, it gives back its share
        one.counted_share = round((low + high) / 2 * sum(left) / 2, 4)
        least, most = least + low * left[0], most + high * left[1]
        left = (left[0] * (1 - high), left[1] * (1 - low))
    told = any(one.counted_share is not None for one in findings)
    return (round(min(least, 1.0), 4), round(min(most, 1.0), 4)) if told else None


def _count_in_graph(findings: Sequence[Finding], graph: GraphView) -> tuple[float, float]:
    claims = [one for one in findings if isinstance(one, GraphFinding) and one.cost_share is not None]
    shares = {id(one): {node.name: graph.share([node]) or 0.0 for node in one._nodes} for one in claims}
    recovers = {id(one): one.recovers_of(sum(shares[id(one)].values())) for one in claims}
    claims.sort(key=lambda one: (-sum(recovers[id(one)]) * sum(shares[id(one)].values()), one.rule))
    left: dict[str, float] = {}
    least = most = 0.0
    for claim in claims:
        low, high = recovers[id(claim)]
        mine = shares[id(claim)]
        whole = sum(mine[name] * left.get(name, 1.0) for name in mine)
        claim.counted_share = round(whole * (low + high) / 2, 4)
        least, most = least + whole * low, most + whole * high
        for name in mine:
            left[name] = left.get(name, 1.0) * (1 - high)
    return least, most
