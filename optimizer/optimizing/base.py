"""What a pass is, where passes register, and the runner that applies them in order.

A pass is one file in `passes/`: a class with `@register_pass`. It proposes; verification and measurement decide.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from torch import fx

from kernels.registry import Registry
from optimizer.errors import FuseworksError
from optimizer.optimizing.any_pass import (
    AnyPass,
    GivenStep,
    PassOptions,
    in_standard_order,
    ours_to_blame,
    resolved,
)
from optimizer.optimizing.graph import Graph
from optimizer.result import Rewrite, Site

__all__ = ["PASSES", "Pass", "PassOptions", "Report", "register_pass", "run_passes", "standard_order"]


@dataclass
class Report:
    """What a pass did and refused to do, each with its node and the user's line."""

    graph: Graph
    sites_applied: list[Site] = field(default_factory=list)
    sites_refused: list[Site] = field(default_factory=list)

    def applied(self, node: fx.Node, what: str) -> None:
        """Call before the node is swept away."""
        self.sites_applied.append(Site(node=node.name, source=self.graph.source(node), reason=what))

    def refused(self, node: fx.Node, reason: str) -> None:
        self.sites_refused.append(Site(node=node.name, source=self.graph.source(node), reason=reason))


class Pass(AnyPass):
    """One rewrite of a torch graph."""

    @abstractmethod
    def apply(self, graph: Graph, options: Any, report: Report) -> None:
        """Rewrites the graph in place. What nothing uses any more is swept by the runner."""


PASSES: Registry[Pass] = Registry("pass", "optimizer.optimizing.passes")
PassClass = TypeVar("PassClass", bound=Callable[[], Pass])


def register_pass(definition: PassClass) -> PassClass:
    """Class decorator: the pass is known under its `name` from here on."""
    PASSES.register(definition)
    return definition


def standard_order() -> list[Pass]:
    return in_standard_order(PASSES)


def run_passes(graph: Graph, steps: Iterable[GivenStep] | None = None) -> list[Rewrite]:
    """Applies the passes in the order given (None: all registered, standard order), checking the graph after each.

    Raises FuseworksError `optimizing:user:unknown-pass`, `bad-options`, `optimizing:ours:pass-failed`, `bad-graph`.
    """
    return [_run(graph, one, options) for one, options in resolved(PASSES, steps)]


def _run(graph: Graph, one: Pass, options: PassOptions) -> Rewrite:
    before, started = _count(graph), time.perf_counter()
    report = Report(graph)
    with ours_to_blame(one):
        one.apply(graph, options, report)
    try:
        graph.sweep()
        graph.lint()
    except Exception as error:
        raise FuseworksError("optimizing:ours:bad-graph", name=one.name, text=str(error)[:1000]) from error
    return Rewrite(
        pass_=one.name,
        options=options.model_dump(mode="json"),
        applied=report.sites_applied,
        refused=report.sites_refused,
        numerics=one.numerics,
        nodes_before=before,
        nodes_after=_count(graph),
        seconds=time.perf_counter() - started,
    )


def _count(graph: Graph) -> int:
    return sum(n.op == "call_function" for n in graph.nodes)
