"""What a pass over a training step is, where they register, and the runner.

A pass changes the step's design: how the optimizer is applied, which tables are updated by rows. Losses, gradients and
updates must stay what they are. The graph is only read: what a pass decides is done to it where it is loaded.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import fx

from kernels.registry import Registry
from optimizer.capturing.torch_step import MODEL, save_step
from optimizer.compiling.step.runtime import Design, design_of, graph_of
from optimizer.errors import FuseworksError
from optimizer.optimizing.any_pass import AnyPass, PassOptions, in_standard_order, ours_to_blame, resolved, steps_of
from optimizer.profiling.places import source_of
from optimizer.result import Rewrite, Site

__all__ = ["STEP_PASSES", "PassOptions", "StepPass", "StepReport", "register_step_pass", "rewrite_step"]


@dataclass
class StepReport:
    """What a pass did and refused to do, each with its place."""

    sites_applied: list[Site] = field(default_factory=list)
    sites_refused: list[Site] = field(default_factory=list)

    def applied(self, place: fx.Node | str, what: str) -> None:
        self.sites_applied.append(_site(place, what))

    def refused(self, place: fx.Node | str, reason: str) -> None:
        self.sites_refused.append(_site(place, reason))


def _site(place: fx.Node | str, reason: str) -> Site:
    """A node with the user's line, or a parameter by its name in the model."""
    if isinstance(place, fx.Node):
        return Site(node=place.name, source=source_of(place.meta.get("stack_trace") or ""), reason=reason)
    return Site(node=place.removeprefix(MODEL), source=None, reason=reason)


class StepPass(AnyPass):
    """One change of a training step."""

    @abstractmethod
    def apply(self, graph: fx.GraphModule, design: Design, options: Any, report: StepReport) -> None:
        """Changes `design` in place."""


STEP_PASSES: Registry[StepPass] = Registry("step pass", "optimizer.optimizing.step_passes")
PassClass = TypeVar("PassClass", bound=Callable[[], StepPass])


def register_step_pass(definition: PassClass) -> PassClass:
    """Class decorator: the pass is known under its `name` from here on."""
    STEP_PASSES.register(definition)
    return definition


def standard_order() -> list[StepPass]:
    return in_standard_order(STEP_PASSES)


def rewrite_step(path: Path, passes: list[dict[str, Any]] | None, out: Path) -> list[Rewrite]:
    """Applies the passes (`[{pass, options}]`; null: all, in standard order) and writes `out` if any of them applied.

    Raises FuseworksError `optimizing:user:bad-model`, `unknown-pass`, `bad-options`, `optimizing:ours:pass-failed`.
    """
    try:
        with path.open("rb") as file:
            program = torch.export.load(file)
        design = design_of(path)
        graph = graph_of(program, design)
    except Exception as error:  # whatever the file does to the loader, it is the file's fault
        raise FuseworksError("optimizing:user:bad-model", text=f"{type(error).__name__}: {error}"[:1000]) from error
    rewrites = [_run(graph, design, one, options) for one, options in resolved(STEP_PASSES, steps_of(passes))]
    if any(r.applied for r in rewrites):
        save_step(program, design, out)
    return rewrites


def _run(graph: fx.GraphModule, design: Design, one: StepPass, options: PassOptions) -> Rewrite:
    started, report = time.perf_counter(), StepReport()
    with ours_to_blame(one):
        one.apply(graph, design, options, report)
    nodes = sum(node.op == "call_function" for node in graph.graph.nodes)
    return Rewrite(
        pass_=one.name,
        options=options.model_dump(mode="json"),
        applied=report.sites_applied,
        refused=report.sites_refused,
        numerics=one.numerics,
        nodes_before=nodes,
        nodes_after=nodes,
        seconds=time.perf_counter() - started,
    )
