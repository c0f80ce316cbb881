"""Splits a linear layer over `[q, k, q-k, q*k]` (DIN's target attention) by blocks of its weight.

With W = [Wq | Wk | Wd | Wp], q one row per sample and k one per position of the sequence:
`[q, k, q-k, q*k] W^T + b = (q (Wq+Wd)^T + b) + k (Wk-Wd)^T + (q*k) Wp^T`. The first part is computed once a sample, and
the concatenation is never built. Any order and any subset of such blocks, and further ones, are handled alike.

Forms of the rest, FLOPs a sample of length T with width D and H outputs:
- `batched`: `k (Wk - Wd + Wp diag(q))^T` with weights of each sample's own, T*D*H; the fastest of the three wherever it
  was measured (CPU, eager and AOTInductor, batch 1 to 256, T 50 to 200). Falls back to `concat` where it does not fit.
- `concat`: one GEMM over [k, q*k], 2*T*D*H.
- `two_gemms`: a GEMM each for k and q*k, no concatenation.

Not when the concatenation has other users, when its axis is not the features', or when no block is a repeated row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import fx

from optimizer.optimizing.base import Pass, PassOptions, Report, register_pass
from optimizer.optimizing.blocks import Atom, Block, atom_shape, factor, read_blocks
from optimizer.optimizing.graph import Graph, Shape
from optimizer.optimizing.matching import ConstantLinear, constant_linear, is_noop, last_dim, one

aten = torch.ops.aten
Form = Literal["batched", "concat", "two_gemms"]
MIN_BATCHED_LENGTH = 4  # shorter sequences do not pay for weights of their own


@register_pass
class SplitTargetAttention(Pass):
    name = "split_target_attention"
    title = "Split target attention's first layer"
    summary = "A linear layer over [q, k, q-k, q*k] becomes a small one over q, once a sample, and one over k."
    numerics: ClassVar[Literal["exact", "reassociates"]] = "reassociates"
    order = 70

    class Options(PassOptions):
        form: Form = Field(
            default="batched",
            description="batched: weights per sample; concat: one GEMM over [k, q*k]; two_gemms: one each",
        )

    def apply(self, graph: Graph, options: Options, report: Report) -> None:
        for cat in graph.operations(aten.cat.default):
            site = _read(graph, cat, report)
            if site is None:
                continue
            for linear in site.linears:
                _Split(graph, site, linear, options.form).run(report)


@dataclass(frozen=True)
class _Site:
    cat: fx.Node
    linears: list[ConstantLinear]
    blocks: list[Block]
    rows: Shape  # the concatenation's shape without its features
    repeated: dict[Atom, bool]  # computed once a sample


def _read(graph: Graph, cat: fx.Node, report: Report) -> _Site | None:
    """The site at a concatenation. Silent about one that is nothing of the kind; a near miss is refused."""
    operands = [n for n in cat.args[0] if isinstance(n, fx.Node)]  # type: ignore[union-attr]
    linears, reasons = _linears(graph, cat)
    if not (linears or reasons) or not _promising(graph, operands):
        return None
    if not last_dim(graph, cat, graph.arguments(cat)["dim"]):
        report.refused(cat, "the blocks are joined along another axis than the features'")
        return None
    if any(not isinstance(graph.shape(n)[-1], int) for n in operands):
        report.refused(cat, "a block's width is dynamic")
        return None
    blocks = read_blocks(graph, operands)
    rows = graph.shape(cat)[:-1]
    atoms = {term.atom for block in blocks for term in block.terms}
    repeated = {atom: not graph.same_shape(atom_shape(graph, atom)[:-1], rows) for atom in atoms}
    whole = sum(_width(graph, atom) for atom in atoms if not repeated[atom])
    if not any(repeated.values()):
        if len(rows) > 1:
            report.refused(cat, "no block is one row repeated over the sequence")
    elif whole == 0:
        report.refused(cat, "every block is a repeated row")
    elif whole >= sum(block.width for block in blocks):
        report.refused(cat, "no two blocks can be combined")
    elif reasons:
        for node, reason in reasons:
            report.refused(node, reason)
    else:
        return _Site(cat, linears, blocks, rows, repeated)
    return None


def _linears(graph: Graph, cat: fx.Node) -> tuple[list[ConstantLinear], list[tuple[fx.Node, str]]]:
    """The linear layers that read the concatenation, and what stands in the way."""
    linears: list[ConstantLinear] = []
    reasons: list[tuple[fx.Node, str]] = []
    others: list[fx.Node] = []
    pending = list(cat.users)
    while pending:
        user = pending.pop(0)
        linear = constant_linear(graph, user)
        if isinstance(linear, ConstantLinear) and user.all_input_nodes[0] is linear.input:
            linears.append(linear)
        elif isinstance(linear, str):
            reasons.append((user, linear))
        elif graph.is_tensor(user) and (is_noop(graph, user) or _flattens_rows(graph, user)):
            pending += list(user.users)
        else:
            others.append(user)
    if others and (linears or reasons):
        reasons.append((cat, f"the concatenation has other users ({others[0].name})"))
    return linears, reasons


def _flattens_rows(graph: Graph, node: fx.Node) -> bool:
    """`x.view(-1, features)`"""
    if not graph.is_op(node, aten.view.default, aten.reshape.default, aten.flatten.using_ints):
        return False
    before, after = graph.shape(node.args[0]), graph.shape(node)  # type: ignore[arg-type]
    return len(after) == 2 and len(before) > 2 and graph.same_shape(before[-1:], after[-1:])


def _promising(graph: Graph, operands: list[fx.Node]) -> bool:
    """A product or difference of tensors among three blocks, or a repeated row: worth a word when it is refused."""
    for operand in operands:
        if graph.is_op(operand, aten.mul.Tensor, aten.sub.Tensor) and len(operands) > 1:
            inputs = [n for n in operand.all_input_nodes if graph.is_tensor(n)]
            among = {factor(graph, n) for n in operands if n is not operand}
            if len(inputs) == 2 and any(factor(graph, n) in among for n in inputs):
                return True
        if not graph.same_shape(factor(graph, operand).shape(graph), graph.shape(operand)):
            return True
    return False


def _width(graph: Graph, atom: Atom) -> int:
    width = atom_shape(graph, atom)[-1]
    assert isinstance(width, int)
    return width


class _Split:
    """Builds one layer's replacement in front of it."""

    def __init__(self, graph: Graph, site: _Site, linear: ConstantLinear, form: Form) -> None:
        self.graph, self.site, self.linear, self.form = graph, site, linear, form
        self.stem = linear.node.name
        self.weights: dict[Atom, torch.Tensor] = {}
        for block in site.blocks:
            # float64: Wk - Wd is rounded once, to the weight's own dtype
            part = linear.weight[:, block.start : block.start + block.width].double()
            for term in block.terms:
                self.weights[term.atom] = self.weights.get(term.atom, 0) + term.coefficient * part

    def run(self, report: Report) -> None:
        graph, node = self.graph, self.linear.node
        bias = None if self.linear.bias is None else graph.constant(self.linear.bias, f"{self.stem}_bias")
        total: fx.Node | None = None
        for atom in [a for a in self.weights if self.site.repeated[a]]:
            part = self._call(aten.linear.default, self._value(atom), self._weight(atom, "row"), bias)
            total, bias = part if total is None else self._call(aten.add.Tensor, total, part), None
        assert total is not None and bias is None
        total, form = self._over_sequence(total)
        rows = ", ".join(_name(a) for a in self.weights if self.site.repeated[a])
        rest = ", ".join(_name(a) for a in self.weights if not self.site.repeated[a])
        before = sum(block.width for block in self.site.blocks)
        what = f"{form}: {rows} once a sample, {rest} over the sequence, in place of {before} columns"
        report.applied(node, what)
        self._stand_in(total)

    def _stand_in(self, total: fx.Node) -> None:
        """Replaces the layer's output, which may have its rows flattened: then a view back to rows goes, too."""
        graph, node = self.graph, self.linear.node
        if len(graph.shape(total)) == len(graph.shape(node)):
            graph.replace(node, total)
            return
        # a flattening view followed at once by the view back ties the sequence's length to guards at the next export
        for user in list(node.users):
            view = graph.is_op(user, aten.view.default, aten.reshape.default)
            if view and graph.same_shape(graph.shape(user), graph.shape(total)):
                graph.replace(user, total)
        if any(user.users for user in node.users):
            graph.replace(node, self._call(aten.reshape.default, total, [-1, self.linear.weight.shape[0]]))

    def _over_sequence(self, total: fx.Node) -> tuple[fx.Node, Form]:
        whole = [a for a in self.weights if not self.site.repeated[a]]
        if self.form == "batched":
            pairs = {a: pair for a in whole if (pair := self._pair(a)) is not None}
            if pairs:
                return self._batched(total, whole, pairs), "batched"
        if self.form == "two_gemms":
            for atom in whole:
                part = self._call(aten.linear.default, self._value(atom), self._weight(atom, "sequence"))
                total = self._call(aten.add.Tensor, part, total)
            return total, "two_gemms"
        values = [self._value(atom) for atom in whole]
        weight = torch.cat([self.weights[a] for a in whole], 1)
        joined = values[0] if len(values) == 1 else self._call(aten.cat.default, values, -1)
        part = self._call(aten.linear.default, joined, self._constant(weight, "sequence"))
        return self._call(aten.add.Tensor, part, total), "concat"

    def _pair(self, atom: Atom) -> tuple[Atom, Atom] | None:
        """(row, sequence) of a product whose row can go into weights of each sample's own."""
        if len(atom) != 2 or len(self.site.rows) != 2:
            return None
        batch, length = self.site.rows
        if isinstance(length, int) and length < MIN_BATCHED_LENGTH:
            return None
        for row, sequence in (atom, atom[::-1]):
            row_shape, sequence_shape = row.shape(self.graph), sequence.shape(self.graph)
            if not self.graph.same_shape(sequence_shape[:2], (batch, length)) or not one(row_shape[1]):
                continue
            if self.graph.same_shape(row_shape[:1], (batch,)):
                return (row,), (sequence,)
        return None

    def _batched(self, total: fx.Node, whole: list[Atom], pairs: dict[Atom, tuple[Atom, Atom]]) -> fx.Node:
        """total + k @ (A + diag(q) P) for each k."""
        # bmm and add, not baddbmm: its strides of a broadcast sum tie dynamic sizes to guards at the next export
        own: dict[Atom, fx.Node] = {}
        for product, (row, sequence) in pairs.items():
            scale = self._call(aten.transpose.int, self._value(row), 1, 2)
            by_row = self._constant(self.weights[product].t(), "product")
            if sequence in own:
                own[sequence] = self._call(aten.addcmul.default, own[sequence], scale, by_row)
            elif sequence in self.weights:
                shared = self._constant(self.weights[sequence].t(), "sequence")
                own[sequence] = self._call(aten.addcmul.default, shared, scale, by_row)
            else:
                own[sequence] = self._call(aten.mul.Tensor, scale, by_row)
        for sequence, weight in own.items():
            part = self._call(aten.bmm.default, self._value(sequence), weight)
            total = self._call(aten.add.Tensor, part, total)
        for atom in whole:
            if atom not in own and atom not in pairs:
                part = self._call(aten.linear.default, self._value(atom), self._weight(atom, "sequence"))
                total = self._call(aten.add.Tensor, part, total)
        return total

    def _value(self, atom: Atom) -> fx.Node:
        value: fx.Node | None = None
        for one_factor in atom:
            root, dim = one_factor.root, one_factor.unsqueeze
            part = root if dim is None else self._call(aten.unsqueeze.default, root, dim)
            value = part if value is None else self._call(aten.mul.Tensor, value, part)
        assert value is not None
        return value

    def _weight(self, atom: Atom, role: str) -> fx.Node:
        return self._constant(self.weights[atom], role)

    def _constant(self, weight: torch.Tensor, role: str) -> fx.Node:
        return self.graph.constant(weight.to(self.linear.weight.dtype), f"{self.stem}_{role}_weight")

    def _call(self, op: torch._ops.OpOverload, *args: object) -> fx.Node:
        return self.graph.call(op, *args, before=self.linear.node, like=self.linear.node)


def _name(atom: Atom) -> str:
    return "*".join(f.root.name for f in atom)
