"""Attention written by hand becomes `scaled_dot_product_attention`, which never stores the scores.

Takes scaling on queries, keys or scores (also by a tensor that is the same for all keys), additive masks, `masked_fill`
and `where` with large negative numbers, float32 softmax, einsum spellings, heads flattened into the batch, scores that
are written transposed, keys and values shared by heads. A mask that is provably causal becomes `is_causal`; any other
stays a mask. Repeated keys and values of grouped queries stay as they are, but for a single query: then the queries of
a group become the rows of one head, and nothing is repeated.
Refuses weights that are needed elsewhere, active dropout, a softmax over another axis, masks that would differ in rows
that are hidden entirely: there the fused operation gives what the softmax gave, NaN (all -inf) or the mean (finite; in
float16 about the mean: its lowest number does not swallow the scores).
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import fx

from optimizer.optimizing.attention import SOFTMAXES, Attention, Operand, Refused, find
from optimizer.optimizing.attention_masks import Built, build, hidden_rows, is_causal, misfit
from optimizer.optimizing.attention_products import VIEWS
from optimizer.optimizing.base import Pass, Report, register_pass
from optimizer.optimizing.graph import Graph, same_size
from optimizer.optimizing.matching import one, skip_noops

aten = torch.ops.aten


@register_pass
class FuseAttention(Pass):
    name = "fuse_attention"
    title = "Fuse hand-written attention"
    summary = "Matmul, scale, mask, softmax and matmul become one scaled_dot_product_attention."
    numerics: ClassVar[Literal["exact", "reassociates"]] = "reassociates"
    order = 50

    def apply(self, graph: Graph, options: Any, report: Report) -> None:
        masks: Built = {}  # layers that share a mask share what is built from it
        for softmax in graph.operations(*SOFTMAXES):
            found = find(graph, softmax)
            if isinstance(found, Refused):
                report.refused(found.node, found.reason)
            elif found is not None:
                why = misfit(graph, found)
                if why is None:
                    _fuse(graph, found, masks, report)
                else:
                    report.refused(why[1], why[0])


def _fuse(graph: Graph, found: Attention, masks: Built, report: Report) -> None:
    before = found.output
    causal = is_causal(graph, found)
    mask = None if causal or not found.masks else build(graph, found, masks)
    report.applied(found.output, _story(found, causal))
    for scaled, inner in found.scaled:
        graph.replace(scaled, inner)
    query, key, value = _operands(graph, found, before, causal)
    rank = len(graph.shape(query))
    query, key, value = (_four_dims(graph, x, before) for x in (query, key, value))
    if mask is not None:
        mask = _mask_of_four_dims(graph, mask, query, rank, before)
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
    fused = _as_output(graph, found, fused, rank, before)
    if found.zeroed:
        hidden = hidden_rows(graph, found, before)
        fused = graph.call(aten.masked_fill.Scalar, fused, hidden, 0.0, before=before, like=found.output)
    if found.output_order != tuple(range(len(found.output_order))):
        fused = graph.call(aten.permute.default, fused, list(found.output_order), before=before, like=found.output)
    if len(graph.shape(found.output)) < len(found.output_order):
        fused = graph.call(aten.flatten.using_ints, fused, 0, 1, before=before, like=found.output)
    graph.replace(found.output, fused)
    for node in (found.output, *reversed(found.below)):  # dropout counts as impure: the sweep would keep it
        graph.module.graph.erase_node(node)


def _operands(graph: Graph, found: Attention, before: fx.Node, causal: bool) -> tuple[fx.Node, fx.Node, fx.Node]:
    """Queries, keys and values with equal leading dims, each as (leading..., rows, columns)."""
    query, key, value = (_laid_out(graph, o, before) for o in (found.query, found.key, found.value))
    for scale in found.row_scales:
        op = aten.div.Tensor if scale.divides else aten.mul.Tensor
        query = graph.call(op, query, scale.factor, before=before, like=query)
    shared = None if causal else _grouped(graph, found)
    if shared is not None:
        key, value, groups = shared
        batch = graph.size(query, 0, before=before)
        sizes = [batch, graph.shape(key)[1], groups, graph.shape(query)[-1]]
        return graph.call(aten.reshape.default, query, sizes, before=before, like=query), key, value
    query, key, value = (_repeated(graph, found, node, before) for node in (query, key, value))
    return query, key, value


def _laid_out(graph: Graph, operand: Operand, before: fx.Node) -> fx.Node:
    """The operand as (leading dims..., rows, columns); transposes before it are looked through."""
    straight = tuple(range(len(operand.order)))
    if operand.order == straight:
        return operand.node
    operand = operand.through_transposes(graph)
    node, order = operand.node, operand.order
    if order == straight:
        return node
    if order == (*straight[:-2], len(order) - 1, len(order) - 2):
        return graph.call(aten.transpose.int, node, -2, -1, before=before, like=node)
    return graph.call(aten.permute.default, node, list(order), before=before, like=node)


def _repeated(graph: Graph, found: Attention, node: fx.Node, before: fx.Node) -> fx.Node:
    """A tensor that several heads or batches share, for each of them (a view)."""
    own = graph.shape(node)[:-2]
    if graph.same_shape(own, found.leading):
        return node
    sizes = _leading(graph, found, before)
    return graph.call(aten.expand.default, node, [*sizes, -1, -1], before=before, like=node)


# ---- grouped queries -------------------------------------------------------------------------------------------------


def _grouped(graph: Graph, found: Attention) -> tuple[fx.Node, fx.Node, int] | None:
    """(keys, values, repeats) before each head of theirs was repeated for a group of single queries."""
    if len(found.leading) != 2 or not one(found.query.shape(graph)[-2]) or found.zeroed:
        return None
    # with one mask for all heads the queries of a group may be rows of one head
    if not all(len(graph.shape(m.where)) < 3 or one(graph.shape(m.where)[-3]) for m in found.masks):
        return None
    if any(len(graph.shape(m.at)) != 4 or m.flipped for m in found.masks):
        return None
    key, value = (_before_repeat(graph, o.through_transposes(graph)) for o in (found.key, found.value))
    if key is None or value is None or key[1] != value[1]:
        return None
    return key[0], value[0], key[1]


def _before_repeat(graph: Graph, operand: Operand) -> tuple[fx.Node, int] | None:
    """(x, n) of `x.repeat_interleave(n, 1)` or `x[:, :, None].expand(.., n, ..).reshape(..)`."""
    node = operand.node
    if operand.order != (0, 1, 2, 3):
        return None
    if graph.is_op(node, aten.repeat_interleave.self_int):
        given = graph.arguments(node)
        times = given["repeats"]
        return (given["self"], times) if given["dim"] in (1, -3) and isinstance(times, int) else None
    if not graph.is_op(node, *VIEWS):
        return None
    wide = skip_noops(graph, node.args[0])  # type: ignore[arg-type]
    if not graph.is_op(wide, aten.expand.default) or len(graph.shape(wide)) != 5:
        return None
    narrow = skip_noops(graph, wide.args[0])  # type: ignore[arg-type]
    if not graph.is_op(narrow, aten.unsqueeze.default) or narrow.args[1] not in (2, -3):
        return None
    inner = skip_noops(graph, narrow.args[0])  # type: ignore[arg-type]
    before, after, repeated = graph.shape(inner), graph.shape(node), graph.shape(wide)
    times = repeated[2]
    kept = graph.same_shape((*repeated[:2], *repeated[3:]), before)
    fits = kept and isinstance(times, int) and isinstance(before[1], int) and after[1] == before[1] * times
    return (inner, times) if fits and graph.same_shape((after[0], *after[2:]), (before[0], *before[2:])) else None


# ---- four dimensions: what the fused CPU kernel takes ----------------------------------------------------------------


def _four_dims(graph: Graph, node: fx.Node, before: fx.Node) -> fx.Node:
    rank = len(graph.shape(node))
    if rank == 3:
        return graph.call(aten.unsqueeze.default, node, 1, before=before, like=node)
    return node if rank == 4 else graph.call(aten.flatten.using_ints, node, 0, 1, before=before, like=node)


def _mask_of_four_dims(graph: Graph, mask: fx.Node, query: fx.Node, rank: int, before: fx.Node) -> fx.Node:
    """Two or four dimensions, of a mask for scores of `rank` dimensions."""
    own = len(graph.shape(mask))
    if own == 2:
        return mask
    if rank == 3 and own == 3:
        return graph.call(aten.unsqueeze.default, mask, 1, before=before, like=mask)
    if rank == 5 and own >= 4 and not (own == 4 and one(graph.shape(mask)[0])):
        return _joined(graph, mask, query, before)
    for _ in range((2 if own < 2 else 4) - own):
        mask = graph.call(aten.unsqueeze.default, mask, 0, before=before, like=mask)
    return mask


def _joined(graph: Graph, mask: fx.Node, query: fx.Node, before: fx.Node) -> fx.Node:
    """The first two of five dims as one, as those of the queries were joined."""
    if len(graph.shape(mask)) == 4:
        mask = graph.call(aten.unsqueeze.default, mask, 0, before=before, like=mask)
    shape = graph.shape(mask)
    if one(shape[0]) and one(shape[1]):
        return graph.call(aten.squeeze.dim, mask, 0, before=before, like=mask)
    (unjoined,) = query.all_input_nodes
    sizes = [graph.size(unjoined, i, before=before) for i in range(2)]
    mask = graph.call(aten.expand.default, mask, [*sizes, -1, -1, -1], before=before, like=mask)
    return graph.call(aten.flatten.using_ints, mask, 0, 1, before=before, like=mask)


def _as_output(graph: Graph, found: Attention, fused: fx.Node, rank: int, before: fx.Node) -> fx.Node:
    """Of four dimensions to (leading..., rows, columns)."""
    like = found.output
    if rank == 3:
        return graph.call(aten.squeeze.dim, fused, 1, before=before, like=like)
    if rank == 4 and graph.same_shape(graph.shape(fused)[:2], found.leading):
        return fused
    rows = graph.size(found.query.node, found.query.order[-2], before=before)
    columns = graph.size(found.value.node, found.value.order[-1], before=before)
    sizes = [*_leading(graph, found, before), rows, columns]
    return graph.call(aten.reshape.default, fused, sizes, before=before, like=like)


def _leading(graph: Graph, found: Attention, before: fx.Node) -> list[int | fx.Node]:
    """The sizes of the leading dims."""
    sizes: list[int | fx.Node] = []
    for index, size in enumerate(found.leading):
        operands = (found.query, found.key, found.value)
        has = next(o for o in operands if same_size(graph.shape(o.node)[o.order[index]], size))
        sizes.append(graph.size(has.node, has.order[index], before=before))
    return sizes


def _story(found: Attention, causal: bool) -> str:
    text = f"scaled_dot_product_attention with scale {found.scale:.6g}"
    if causal:
        return text + ", causal (its mask is the lower triangle)"
    if found.masks:
        text += f", {len(found.masks)} mask(s) as one additive mask"
    if found.row_scales:
        text += ", a tensor's factor moved to the queries"
    return text
