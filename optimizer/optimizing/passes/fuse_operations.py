"""Pieces of the graph that a kernel of the library computes become one operation each; near misses stay, with reasons.

Every kernel in `kernels/ops/` offers its `match`; a new one takes part the day it lands. Kernels that take more of the
graph away are asked first. On a CPU the operation is lowered to its reference, which compilers fuse as they would the
original; on a GPU it launches its Triton code. Refuses intermediates that something else needs as well, values that
share memory with an in-place write, and arguments that are computed too late.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field
from torch import fx

from kernels import KERNELS
from kernels.patterns import Made, nodes_in
from kernels.spec import Kernel, Match, Mismatch, as_tuple
from optimizer.optimizing.any_pass import PassOptions
from optimizer.optimizing.base import Pass, Report, register_pass
from optimizer.optimizing.graph import Graph


@register_pass
class FuseOperations(Pass):
    name = "fuse_operations"
    title = "Fuse operations of the kernel library"
    summary = "Norms, gates, losses, lookups and the like become one operation each, which reads memory once."
    numerics: ClassVar[Literal["exact", "reassociates"]] = "reassociates"
    order = 110  # last: other passes know aten operations, not ours

    class Options(PassOptions):
        kernels: list[str] | None = Field(default=None, description="only these kernels; null: the whole library")

    def apply(self, graph: Graph, options: Any, report: Report) -> None:
        chosen = [KERNELS.get(name) for name in options.kernels] if options.kernels is not None else list(KERNELS)
        misses: list[tuple[Kernel, Mismatch]] = []
        for kernel in sorted(chosen, key=lambda k: (-k.breadth, k.name)):
            for node in graph.operations():
                if node.graph is not graph.module.graph or (not node.users and node.op != "output"):
                    continue  # taken by a match before
                found = kernel.match(node)
                if isinstance(found, Match):
                    found = _obstacle(graph, found) or found
                if isinstance(found, Mismatch):
                    misses.append((kernel, found))
                elif found is not None:
                    _fuse(graph, kernel, found, report)
        for kernel, miss in misses:
            if miss.node.users:  # else another kernel took it
                report.refused(miss.node, f"{kernel.name}: {miss.reason}")


def _obstacle(graph: Graph, match: Match) -> Mismatch | None:
    outputs = [node for node in match.outputs if node is not None]
    gone = {*match.inside, *outputs}
    for node in (*gone, *nodes_in(match.args)):
        if node in graph.tainted:
            return Mismatch("a value in it shares memory with an in-place write", node)
    for node in match.inside:
        outsider = next((user for user in node.users if not _goes_too(user, gone)), None)
        if outsider is not None:
            return Mismatch(f"{node.name} is needed by {outsider.name} as well", node)
    first = min(outputs)
    for late in [node for node in nodes_in(match.args) if first < node]:
        if not graph.hoist(late, first, never=gone):
            return Mismatch(f"{late.name} is computed only after {first.name}", late)
    return None


def _goes_too(node: fx.Node, gone: set[fx.Node], depth: int = 3) -> bool:
    """Whether nothing is left that uses the node: a view in between, which may stay, goes when its users do."""
    if node in gone:
        return True
    view = node.op == "call_function" and bool(node.users) and depth > 0
    return view and all(_goes_too(user, gone, depth - 1) for user in node.users)


def _fuse(graph: Graph, kernel: Kernel, match: Match, report: Report) -> None:
    outputs = [(index, node) for index, node in enumerate(match.outputs) if node is not None]
    first, last = min(node for _, node in outputs), max(node for _, node in outputs)
    given = ", ".join(dict.fromkeys(node.name for a in match.args for node in nodes_in(a)))
    gone = {*match.inside, *(node for _, node in outputs)}
    others = [user for _, node in outputs for user in node.users if user not in gone]
    shared = f", its {len(match.outputs)} results go on to {len(others)}" if len(match.outputs) > 1 else ""
    report.applied(last, f"{kernel.name} of {given}{shared}")
    args = [_put(graph, argument, first, last) for argument in match.args]
    fused = graph.call(kernel.op, *args, before=first, like=last)
    several = len(as_tuple(fused.meta["val"])) > 1
    for index, node in outputs:
        graph.replace(node, graph.item(fused, index, before=first, like=node) if several else fused)
    graph.module.graph.eliminate_dead_code()


def _put(graph: Graph, argument: Any, before: fx.Node, like: fx.Node) -> Any:
    """The argument, once what the graph does not hold yet is put in front."""
    if isinstance(argument, (list, tuple)):
        return [_put(graph, one, before, like) for one in argument]
    if not isinstance(argument, Made):
        return argument
    return graph.call(argument.target, *_put(graph, argument.args, before, like), before=before, like=like)
