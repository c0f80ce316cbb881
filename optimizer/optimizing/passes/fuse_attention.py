"""Attention written by hand becomes `scaled_dot_product_attention`, which never stores the scores.

Takes scaling on the queries or the scores, additive masks, `masked_fill` and `where` with large negative numbers,
float32 softmax, einsum spellings. A constant mask that is exactly causal becomes `is_causal`; any other stays a mask.
Refuses weights that are needed elsewhere, active dropout, a softmax over another axis, scaling behind the mask.
A row that is masked out entirely by -inf gives 0 here and NaN in a softmax; with finite masks both give the mean (in
float16 about the mean: its lowest number does not swallow the scores).
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import fx

from optimizer.optimizing.attention import LARGEST_FILL, SOFTMAXES, Attention, Mask, Operand, Refused, find
from optimizer.optimizing.base import Pass, Report, register_pass
from optimizer.optimizing.graph import Graph

aten = torch.ops.aten
Masks = dict[Any, fx.Node]


@register_pass
class FuseAttention(Pass):
    name = "fuse_attention"
    title = "Fuse hand-written attention"
    summary = "Matmul, scale, mask, softmax and matmul become one scaled_dot_product_attention."
    numerics: ClassVar[Literal["exact", "reassociates"]] = "reassociates"
    order = 50

    def apply(self, graph: Graph, options: Any, report: Report) -> None:
        masks: Masks = {}  # layers that share a mask share what is built from it
        for softmax in graph.operations(*SOFTMAXES):
            found = find(graph, softmax)
            if isinstance(found, Refused):
                report.refused(found.node, found.reason)
            elif found is not None:
                reason = _hopeless(graph, found)
                if reason is None:
                    _fuse(graph, found, masks, report)
                else:
                    report.refused(softmax, reason)


def _hopeless(graph: Graph, found: Attention) -> str | None:
    """A constant mask that hides a whole row: a softmax gives NaN there, the fused operation 0."""
    additive = _constant_mask(graph, found)
    if additive is not None and bool((additive == -torch.inf).all(-1).any()):
        return "a row of its constant mask is -inf throughout, where a softmax gives NaN"
    return None


def _fuse(graph: Graph, found: Attention, masks: Masks, report: Report) -> None:
    before = found.output
    query, key, value = (_laid_out(graph, o, before) for o in (found.query, found.key, found.value))
    causal = _is_causal(graph, found, graph.shape(query)[-2], graph.shape(key)[-2])
    mask = None if causal or not found.masks else _mask(graph, found, masks)
    headless = len(graph.shape(query)) == 3
    if headless:  # the fused CPU kernel takes four dimensions only
        query, key, value = (graph.call(aten.unsqueeze.default, x, 1, before=before) for x in (query, key, value))
    if mask is not None:
        mask = _ranked(graph, mask, headless, before)
    fused = graph.call(
        aten.scaled_dot_product_attention.default,
        query,
        key,
        value,
        mask,
        0.0,
        causal,
        scale=found.scale,
        before=before,
        like=found.output,
    )
    if headless:
        fused = graph.call(aten.squeeze.dim, fused, 1, before=before, like=found.output)
    if found.output_order != tuple(range(len(found.output_order))):
        fused = graph.call(aten.permute.default, fused, list(found.output_order), before=before, like=found.output)
    report.applied(found.output, _story(graph, found, causal))
    graph.replace(found.output, fused)
    for node in (found.output, *reversed(found.below)):  # dropout counts as impure: the sweep would keep it
        graph.module.graph.erase_node(node)


def _laid_out(graph: Graph, operand: Operand, before: fx.Node) -> fx.Node:
    """The operand as (batch dims..., rows, columns); a transpose before it is looked through."""
    node, order = operand.node, operand.order
    rank = len(order)
    if graph.is_op(node, aten.transpose.int, aten.permute.default) and order != tuple(range(rank)):
        inner = list(range(rank))
        if graph.is_op(node, aten.permute.default):
            inner = [d % rank for d in node.args[1]]  # type: ignore[union-attr]
        else:
            a, b = (int(d) % rank for d in node.args[1:3])  # type: ignore[call-overload]
            inner[a], inner[b] = inner[b], inner[a]
        node, order = node.args[0], tuple(inner[i] for i in order)  # type: ignore[assignment]
    if order == tuple(range(rank)):
        return node
    if order == (*range(rank - 2), rank - 1, rank - 2):
        return graph.call(aten.transpose.int, node, -2, -1, before=before, like=node)
    return graph.call(aten.permute.default, node, list(order), before=before, like=node)


# ---- masks -----------------------------------------------------------------------------------------------------------


def _mask(graph: Graph, found: Attention, known: Masks) -> fx.Node:
    """One additive mask of the masks, from the inside out; built where its parts are first known."""
    dtype = graph.dtype(found.output)
    key = (dtype, tuple(found.masks))
    if key in known:
        return known[key]
    combined: fx.Node | None = None
    for mask in found.masks:
        parts = [n for n in (mask.where, combined) if n is not None]
        before = _after(graph, parts)
        like = mask.where
        if mask.kind != "fill":
            part = mask.where
            if mask.kind == "subtract":
                part = graph.call(aten.neg.default, part, before=before, like=like)
            if combined is not None:
                part = graph.call(aten.add.Tensor, combined, part, before=before, like=like)
            combined = part
            continue
        hidden, shown = _fill(mask, dtype), 0.0
        where = mask.where
        if combined is None:
            pair = (hidden, shown) if mask.when else (shown, hidden)
            combined = graph.call(aten.where.Scalar, where, *pair, before=before, like=like)
        elif mask.when:
            combined = graph.call(aten.where.ScalarSelf, where, hidden, combined, before=before, like=like)
        else:
            combined = graph.call(aten.where.ScalarOther, where, combined, hidden, before=before, like=like)
    assert combined is not None
    if graph.dtype(combined) != dtype:
        combined = graph.call(aten.to.dtype, combined, dtype, before=_after(graph, [combined]), like=combined)
    known[key] = combined
    return combined


def _fill(mask: Mask, dtype: torch.dtype) -> float:
    """A finite fill becomes the lowest number: only so a row that is hidden entirely still gives the mean."""
    if mask.value == -torch.inf:
        return mask.value
    # bfloat16's lowest is a float32 too; float32's own would become -inf when the model is run in bfloat16 later
    return torch.finfo(torch.float16 if dtype == torch.float16 else torch.bfloat16).min


def _after(graph: Graph, nodes: list[fx.Node]) -> fx.Node:
    """The first place where all of these are known."""
    position = {node: index for index, node in enumerate(graph.nodes)}
    following: fx.Node = max(nodes, key=position.__getitem__).next
    while following.op in ("placeholder", "get_attr"):  # inputs stay together at the top
        following = following.next
    return following


def _ranked(graph: Graph, mask: fx.Node, headless: bool, before: fx.Node) -> fx.Node:
    """The fused CPU kernel takes masks of two or four dimensions."""
    rank = len(graph.shape(mask))
    if rank == 2 or rank == 4:
        return mask
    if rank == 3 and headless:
        return graph.call(aten.unsqueeze.default, mask, 1, before=before, like=mask)
    for _ in range((2 if rank < 2 else 4) - rank):
        mask = graph.call(aten.unsqueeze.default, mask, 0, before=before, like=mask)
    return mask


def _constant_mask(graph: Graph, found: Attention) -> torch.Tensor | None:
    """All masks as one additive tensor when all are constant."""
    combined: torch.Tensor | None = None
    for mask in found.masks:
        value = graph.constant_value(mask.where)
        if value is None:
            return None
        if mask.kind == "fill":
            hidden = value.bool() if mask.when else ~value.bool()
            base = torch.zeros(()) if combined is None else combined
            combined = torch.where(hidden, torch.tensor(mask.value, dtype=base.dtype), base)
        else:
            value = -value if mask.kind == "subtract" else value
            combined = value if combined is None else combined + value
    return combined


def _is_causal(graph: Graph, found: Attention, rows: int | torch.SymInt, columns: int | torch.SymInt) -> bool:
    """Whether the masks are, provably, the lower triangle: constant, square, 0 up to the diagonal, hidden above it."""
    mask = _constant_mask(graph, found)
    if mask is None or not (isinstance(rows, int) and isinstance(columns, int)) or rows != columns:
        return False
    if mask.dim() < 2 or mask.shape[-2:] != (rows, columns) or mask.numel() != rows * columns:
        return False
    above = torch.ones(rows, columns, dtype=torch.bool).triu(1)
    mask = mask.reshape(rows, columns)
    return bool((mask[~above] == 0).all() and (mask[above] <= LARGEST_FILL).all())


def _story(graph: Graph, found: Attention, causal: bool) -> str:
    text = f"scaled_dot_product_attention with scale {found.scale:.6g}"
    if causal:
        return text + ", causal (its constant mask is the lower triangle)"
    if not found.masks:
        return text
    constant = _constant_mask(graph, found) is not None
    text += f", {len(found.masks)} mask(s) as one additive mask"
    if constant or all(m.kind == "fill" and m.value != -torch.inf for m in found.masks):
        return text
    return text + "; should a row be -inf throughout, it gives 0 where the softmax gave NaN"
