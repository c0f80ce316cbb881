"""What a pass is, where passes register, and the runner that applies them in order.

A pass is one file in `passes/`: a class with `@register_pass`. It proposes; verification and measurement decide.
"""

from __future__ import annotations

import hashlib
import inspect
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from torch import fx

import optimizer.optimizing.errors  # noqa: F401
from kernels.registry import Registry, UnknownName
from optimizer.errors import FuseworksError
from optimizer.optimizing.graph import Graph
from optimizer.result import Rewrite, Site


class PassOptions(BaseModel):
    """Options of a pass: frozen, described, and an unknown one is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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


class Pass(ABC):
    """One rewrite. `order` is its place in the standard order; `numerics` says whether results stay bit-exact in
    exact arithmetic order (`exact`, up to the shapes of GEMMs) or sums are regrouped (`reassociates`)."""

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    numerics: ClassVar[Literal["exact", "reassociates"]]
    order: ClassVar[int]

    class Options(PassOptions):
        """No options."""

    @abstractmethod
    def apply(self, graph: Graph, options: Any, report: Report) -> None:
        """Rewrites the graph in place. What nothing uses any more is swept by the runner."""

    @property
    def identity(self) -> str:
        """Hash of the pass's own source: a cache keyed without it goes stale when the pass changes."""
        module = inspect.getmodule(type(self))
        assert module is not None
        return hashlib.sha256(inspect.getsource(module).encode()).hexdigest()

    def manifest(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "summary": self.summary,
            "options_schema": self.Options.model_json_schema(),
            "numerics": self.numerics,
            "order": self.order,
            "identity": self.identity,
        }


PASSES: Registry[Pass] = Registry("pass", "optimizer.optimizing.passes")
PassClass = TypeVar("PassClass", bound=Callable[[], Pass])


def register_pass(definition: PassClass) -> PassClass:
    """Class decorator: the pass is known under its `name` from here on."""
    PASSES.register(definition)
    return definition


def standard_order() -> list[Pass]:
    return sorted(PASSES, key=lambda p: (p.order, p.name))


def resolve(name: str, options: dict[str, Any]) -> tuple[Pass, PassOptions]:
    """Raises FuseworksError `optimizing:user:unknown-pass`, `optimizing:user:bad-options`."""
    try:
        found = PASSES.get(name)
    except UnknownName:
        raise FuseworksError("optimizing:user:unknown-pass", name=name, known=", ".join(PASSES.names())) from None
    try:
        return found, found.Options.model_validate(options)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'options'}: {e['msg']}" for e in error.errors())
        raise FuseworksError("optimizing:user:bad-options", name=name, text=problems) from None


def run_passes(graph: Graph, steps: Iterable[tuple[str, dict[str, Any]]] | None = None) -> list[Rewrite]:
    """Applies the passes in the order given (None: all registered, standard order), checking the graph after each."""
    if steps is None:
        steps = [(p.name, {}) for p in standard_order()]
    resolved = [(*resolve(name, options), options) for name, options in steps]
    return [_run(graph, one, options, given) for one, options, given in resolved]


def _run(graph: Graph, one: Pass, options: PassOptions, given: dict[str, Any]) -> Rewrite:
    before, started = _count(graph), time.perf_counter()
    report = Report(graph)
    try:
        one.apply(graph, options, report)
    except FuseworksError:
        raise
    except Exception as error:  # any exception of a pass is our fault and costs this candidate only
        text = f"{type(error).__name__}: {error}"[:1000]
        detail = traceback.format_exc()
        raise FuseworksError("optimizing:ours:pass-failed", name=one.name, text=text, detail=detail) from error
    try:
        graph.sweep()
        graph.lint()
    except Exception as error:
        raise FuseworksError("optimizing:ours:bad-graph", name=one.name, text=str(error)[:1000]) from error
    return Rewrite(
        pass_=one.name,
        options=given,
        applied=report.sites_applied,
        refused=report.sites_refused,
        numerics=one.numerics,
        nodes_before=before,
        nodes_after=_count(graph),
        seconds=time.perf_counter() - started,
    )


def _count(graph: Graph) -> int:
    return sum(n.op == "call_function" for n in graph.nodes)
