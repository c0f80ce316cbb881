"""What every rule on a captured graph shares: a sighting of nodes that the cause lies in, told as a finding.

With a profile the nodes' share of the time tells severity, cost and gain; without one the structure tells severity, and
no gain is predicted. Where a pass of ours rewrites these nodes, the finding names it as the remedy.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optimizer.capturing.outline import OutlineNode
from optimizer.diagnosing.base import Evidence, Rule
from optimizer.diagnosing.graphs.counting import GraphFinding
from optimizer.diagnosing.graphs.view import GraphView, sources
from optimizer.diagnosing.traces.trace_rule import MOST_RECOVERED, GpuRule, Severity, severity
from optimizer.optimizing.pass_targets import matched_only
from optimizer.result import Finding, PredictedGain, Rewrite

MOST_NODES, MOST_REASONS = 40, 3


@dataclass(frozen=True)
class Sighting:
    """`nodes`: whose time the cause takes, or `part` of it. `recovers`: least and most of that, as shares, that mending
    gives back, and `model` says why so. `structural`: the severity where no time tells it. `sites`: what a pass would
    name; `passes`: those that mend it."""

    title: str
    evidence: Mapping[str, Any]
    steps: Sequence[str]
    nodes: Sequence[OutlineNode] = ()
    sites: Sequence[OutlineNode] = ()
    part: float = 1.0
    recovers: tuple[float, float] = (0.0, 0.0)
    model: str = ""
    structural: Severity = "low"
    passes: Sequence[str] = field(default=())


class GraphRule(Rule):
    """One cause in a captured graph. `graph_threshold`: from where on it is a finding, with the source in brackets."""

    graph_threshold: str

    @abstractmethod
    def look_at(self, graph: GraphView, evidence: Evidence) -> Sighting | None: ...

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        graph = evidence.graph
        sighting = self.look_at(graph, evidence) if graph is not None else None
        if graph is not None and sighting is not None:
            yield self._told(graph, sighting, evidence)

    def _told(self, graph: GraphView, sighting: Sighting, evidence: Evidence) -> GraphFinding:
        share = graph.share(sighting.nodes)
        share = share * sighting.part if share is not None else None
        whole_ms = evidence.profile.total_ms if evidence.profile is not None else None
        nodes = sighting.sites or sighting.nodes
        facts: dict[str, Any] = dict(sighting.evidence)
        facts |= {"sources": sources(nodes), "nodes": [node.name for node in nodes][:MOST_NODES]}
        mended, refused = _by_passes(evidence.rewrites, sighting)
        if mended:
            facts |= {"pass": next(iter(mended)), "places_by_pass": mended}
        if refused:
            facts["passes_refuse"] = refused
        mending = [name for name in mended if name not in matched_only(evidence.target)]
        steps = [f"Let an optimizing run try the pass {name}: {_places(count)}." for name, count in mended.items()]
        steps = [*steps, *sighting.steps]
        return GraphFinding(
            rule=self.name,
            severity=severity(share) if share is not None else sighting.structural,
            title=sighting.title + (f"; {share:.0%} of the time goes there" if share is not None else ""),
            evidence=facts,
            remedy=" ".join(steps),
            threshold=self.graph_threshold,
            steps=steps,
            mended_by=[{"pass": name} for name in mending],
            cost_ms=round(share * whole_ms, 4) if share is not None and whole_ms is not None else None,
            cost_share=round(share, 4) if share is not None else None,
            gain=_gain(share, sighting),
        ).claiming(sighting.nodes, sighting.part, sighting.recovers)


class GraphAndTraceRule(GraphRule, GpuRule):
    """A cause that a graph shows before anything runs, and that a trace shows with its time."""

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        yield from GraphRule.check(self, evidence)
        yield from GpuRule.check(self, evidence)


def _gain(share: float | None, sighting: Sighting) -> PredictedGain | None:
    if not share or sighting.recovers[1] <= 0:
        return None
    low, high = (1 / (1 - min(part * share, MOST_RECOVERED)) for part in sighting.recovers)
    return PredictedGain(low=round(low, 4), high=round(high, 4), model=sighting.model)


def _by_passes(rewrites: Sequence[Rewrite], sighting: Sighting) -> tuple[dict[str, int], list[str]]:
    """How many of its places each pass rewrites; and why the others are refused."""
    names = {node.name for node in (*sighting.nodes, *sighting.sites)}
    mended, refused = {}, []
    for rewrite in rewrites:
        if rewrite.pass_ in sighting.passes:
            count = sum(site.node in names for site in rewrite.applied)
            if count:
                mended[rewrite.pass_] = count
            else:
                refused += [f"{rewrite.pass_}: {site.reason}" for site in rewrite.refused if site.node in names]
    return mended, refused[:MOST_REASONS]


def _places(count: int) -> str:
    return "it rewrites one of these places" if count == 1 else f"it rewrites {count} of these places"
