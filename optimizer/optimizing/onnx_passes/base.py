"""What an ONNX pass is, where they register, and the runner. Inputs and outputs keep names, order, types and shapes.

Only exact numerics: what regroups sums is left to the runtime's own levels, which are candidates by themselves.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import onnx
import onnx_ir as ir

from kernels.registry import Registry
from optimizer.errors import FuseworksError
from optimizer.optimizing.any_pass import AnyPass, PassOptions, in_standard_order, ours_to_blame, resolved, steps_of
from optimizer.result import Rewrite, Site

__all__ = [
    "ONNX_PASSES",
    "OnnxPass",
    "PassOptions",
    "node_label",
    "register_onnx_pass",
    "rewrite_onnx",
    "standard_order",
]

MAX_SITES = 200  # a folded model can lose thousands of nodes; the count is in nodes_before and nodes_after


class OnnxPass(AnyPass):
    """One rewrite of an ONNX graph."""

    numerics = "exact"

    @abstractmethod
    def apply(self, model: ir.Model, options: Any) -> None:
        """Rewrites the model in place."""

    @abstractmethod
    def reasons(self, nodes: list[ir.Node]) -> dict[ir.Node, str]:
        """Before `apply`: what it would mean for each of these nodes, in order, to be gone."""

    def refusals(self, model: ir.Model, options: Any) -> list[Site]:
        """After `apply`: places that look like matches and were left, with the reason."""
        return []


ONNX_PASSES: Registry[OnnxPass] = Registry("ONNX pass", "optimizer.optimizing.onnx_passes")
PassClass = TypeVar("PassClass", bound=Callable[[], OnnxPass])


def register_onnx_pass(definition: PassClass) -> PassClass:
    """Class decorator: the pass is known under its `name` from here on."""
    ONNX_PASSES.register(definition)
    return definition


def standard_order() -> list[OnnxPass]:
    return in_standard_order(ONNX_PASSES)


def rewrite_onnx(path: Path, passes: list[dict[str, Any]] | None, out: Path) -> list[Rewrite]:
    """Applies the passes (`[{pass, options}]`; null: all, in standard order) and writes `out` if any of them applied.

    Raises FuseworksError `optimizing:user:bad-model`, `unknown-pass`, `bad-options`, `optimizing:ours:pass-failed`,
    `bad-graph`.
    """
    try:
        model = ir.load(path)
    except Exception as error:  # whatever the file does to the reader, it is the file's fault
        raise FuseworksError("optimizing:user:bad-model", text=f"{type(error).__name__}: {error}"[:1000]) from error
    chosen = resolved(ONNX_PASSES, steps_of(passes))
    contract = _contract(model)
    rewrites = [_run(model, one, options) for one, options in chosen]
    if any(r.applied for r in rewrites):
        ir.save(model, out)
        _check(out, model, contract)
    return rewrites


def node_label(node: ir.Node) -> str:
    """Nodes need no name in ONNX: the first output has one."""
    return node.name or (node.outputs[0].name if node.outputs else None) or node.op_type


def _run(model: ir.Model, one: OnnxPass, options: PassOptions) -> Rewrite:
    started = time.perf_counter()
    before = list(model.graph.all_nodes())
    reasons = one.reasons(before)  # now: a node that was removed has lost its inputs
    with ours_to_blame(one):
        one.apply(model, options)
        after = set(model.graph.all_nodes())
        refused = one.refusals(model, options)
    gone = [node for node in before if node not in after]
    return Rewrite(
        pass_=one.name,
        options=options.model_dump(mode="json"),
        applied=[Site(node=node_label(node), reason=reasons[node]) for node in gone[:MAX_SITES]],
        refused=refused[:MAX_SITES],
        numerics=one.numerics,
        nodes_before=len(before),
        nodes_after=len(after),
        seconds=time.perf_counter() - started,
    )


def _contract(model: ir.Model) -> list[tuple[str | None, str, str]]:
    return [(v.name, str(v.dtype), str(v.shape)) for v in (*model.graph.inputs, *model.graph.outputs)]


def _check(path: Path, model: ir.Model, contract: list[tuple[str | None, str, str]]) -> None:
    if _contract(model) != contract:
        text = f"inputs and outputs {contract} became {_contract(model)}"
        raise FuseworksError("optimizing:ours:bad-graph", name="ONNX passes", text=text[:1000])
    try:
        onnx.checker.check_model(str(path))
    except onnx.checker.ValidationError as error:
        raise FuseworksError("optimizing:ours:bad-graph", name="ONNX passes", text=str(error)[:1000]) from error
