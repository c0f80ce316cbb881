"""Rules of operations that compute values: by element, along dimensions, by products and lookups."""

from __future__ import annotations

import operator

import torch
from torch import fx

from optimizer.optimizing.graph import Graph
from optimizer.optimizing.matching import one
from optimizer.optimizing.rows import (
    BOTH,
    ELSEWHERE,
    MIXES,
    UNKNOWN,
    Known,
    Once,
    Treatment,
    common,
    operand_of,
    rank_of,
    rule,
    rule_of,
)

aten = torch.ops.aten


@rule(
    torch.Tag.pointwise, aten.clone, aten.contiguous, aten.alias, aten.detach, aten.to, aten._to_copy,
    aten.lift_fresh_copy, aten.dropout, aten.feature_dropout, aten.alpha_dropout, aten.zeros_like, aten.ones_like,
    aten.full_like, aten.type_as, aten.prelu, aten.masked_fill, aten.where, aten.nan_to_num, aten.gelu,
)  # fmt: skip
def _elementwise(graph: Graph, node: fx.Node, known: Known) -> Treatment | str:
    """Broadcasting aligns dimensions from the right."""
    operands = [n for n in node.all_input_nodes if n in known]
    found = common([(known[n].axis - len(graph.shape(n)), known[n].inner) for n in operands])
    if found is None:
        return ELSEWHERE
    axis = rank_of(graph, node) + found[0]
    if node.target is aten.prelu.default and axis == 1:
        return "its weights lie along the batch"
    return Treatment(axis, found[1])


@rule(
    aten.softmax, aten.log_softmax, aten._softmax, aten._log_softmax, aten.cumsum, aten.cumprod, aten.sort,
    aten.argsort, aten.topk, aten.flip, aten.sum.dim_IntList, aten.mean.dim, aten.amax, aten.amin, aten.max.dim,
    aten.min.dim, aten.argmax, aten.argmin, aten.any.dim, aten.all.dim, aten.prod.dim_int, aten.logsumexp,
    aten.var.correction, aten.std.correction, aten.var.dim, aten.std.dim, aten.norm.ScalarOpt_dim,
    aten.linalg_vector_norm, aten.median.dim, aten.unbind, aten.split, aten.split_with_sizes, aten.chunk, aten.select,
    aten.slice, aten.narrow, aten.squeeze.dim, aten.squeeze.dims, aten.index_select,
)  # fmt: skip
def _along(graph: Graph, node: fx.Node, known: Known) -> Treatment | str:
    """Works along the dimensions in `dim`, which vanish or stay."""
    found = operand_of(graph, node, known, "self")
    if isinstance(found, str):
        return found
    arguments = graph.arguments(node)
    dims = arguments["dims"] if "dims" in arguments else arguments.get("dim")
    before, after = len(graph.shape(arguments["self"])), rank_of(graph, node)
    listed = [dims] if isinstance(dims, int) else dims
    if not listed or not all(isinstance(d, int) for d in listed):
        return MIXES
    along = {d % before for d in listed}
    if found.axis in along:
        return MIXES
    gone = sum(d < found.axis for d in along) if after < before else 0
    return Treatment(found.axis - gone, found.inner)


@rule(aten.layer_norm, aten.rms_norm)
def _norm(graph: Graph, node: fx.Node, known: Known) -> Treatment | str:
    found = operand_of(graph, node, known, "input")
    if isinstance(found, str):
        return found
    arguments = graph.arguments(node)
    if found.axis >= len(graph.shape(arguments["input"])) - len(arguments["normalized_shape"]):
        return MIXES
    return Treatment(found.axis, found.inner)


@rule(aten.batch_norm)
def _batch_norm(graph: Graph, node: fx.Node, known: Known) -> Treatment | str:
    if graph.arguments(node)["training"] is not False:
        return "batch norm in training takes its statistics over the batch"
    found = operand_of(graph, node, known, "input")
    if isinstance(found, str):
        return found
    return Treatment(found.axis, found.inner) if found.axis == 0 else MIXES


@rule(
    aten.group_norm, aten.conv1d, aten.conv2d, aten.conv3d, aten.max_pool1d, aten.max_pool2d, aten.avg_pool1d,
    aten.avg_pool2d, aten.adaptive_avg_pool1d, aten.adaptive_avg_pool2d,
)  # fmt: skip
def _by_sample(graph: Graph, node: fx.Node, known: Known) -> Treatment | str:
    """The first dimension is the sample, and it is never left out here."""
    arguments = graph.arguments(node)
    found = operand_of(graph, node, known, "input" if "input" in arguments else "self")
    if isinstance(found, str):
        return found
    spatial = {"1d": 3, "2d": 4, "3d": 5}.get(node.target._schema.name[-2:], 2)  # type: ignore[union-attr]
    if found.axis != 0 or rank_of(graph, node) < spatial or not one(found.inner):
        return MIXES
    return Treatment(0)


@rule(aten.constant_pad_nd, aten.pad)
def _pad(graph: Graph, node: fx.Node, known: Known) -> Treatment | str:
    found = operand_of(graph, node, known, "self")
    if isinstance(found, str):
        return found
    padded = len(graph.arguments(node)["pad"]) // 2
    return Treatment(found.axis, found.inner) if found.axis < rank_of(graph, node) - padded else MIXES


# ---- products and lookups ------------------------------------------------------------------------------------------


@rule(aten.linear)
def _linear(graph: Graph, node: fx.Node, known: Known) -> Treatment | str:
    found = operand_of(graph, node, known, "input")
    if isinstance(found, str):
        return found
    return MIXES if found.axis == len(graph.shape(graph.arguments(node)["input"])) - 1 else found.kept()


@rule(aten.addmm)
def _addmm(graph: Graph, node: fx.Node, known: Known) -> Treatment | str:
    found = operand_of(graph, node, known, "mat1")
    if isinstance(found, str):
        return found
    bias = len(graph.shape(graph.arguments(node)["self"]))
    return found.kept() if found.axis == 0 and bias == 1 else MIXES


@rule(aten.matmul, aten.mm, aten.bmm)
def _matmul(graph: Graph, node: fx.Node, known: Known) -> Treatment | str:
    """Rows of the left operand, or a dimension of both that only counts products."""
    left, right = node.args[:2]
    assert isinstance(left, fx.Node) and isinstance(right, fx.Node)
    ranks = {n: len(graph.shape(n)) for n in (left, right)}
    if min(ranks.values()) < 2:
        return UNKNOWN
    places = {n: known[n].axis - ranks[n] for n in (left, right) if n in known}
    if places.get(left) == -1 or places.get(right) == -2:
        return "the batch is what it sums over"
    found = common([(place, known[n].inner) for n, place in places.items()])
    if found is None:
        return ELSEWHERE
    place, inner = found
    if len(places) == 1 and place <= -3:
        other = right if left in places else left
        if ranks[other] >= -place and not one(graph.shape(other)[place]):
            return BOTH
    if len(places) == 2 and place >= -2:
        return ELSEWHERE
    return Treatment(rank_of(graph, node) + place, inner)


@rule(aten.einsum)
def _einsum(graph: Graph, node: fx.Node, known: Known) -> Treatment | str:
    equation, operands = str(node.args[0]).replace(" ", ""), list(node.args[1])  # type: ignore[arg-type]
    terms, arrow, result = equation.partition("->")
    if not arrow or "." in equation:
        return UNKNOWN
    labels = {term[known[n].axis] for n, term in zip(operands, terms.split(","), strict=True) if n in known}
    if len(labels) != 1 or any(not one(known[n].inner) for n in operands if n in known):
        return ELSEWHERE
    (label,) = labels
    for operand, term in zip(operands, terms.split(","), strict=True):
        if label in term and operand not in known:
            return BOTH
        if term.count(label) > 1:
            return MIXES
    return Treatment(result.index(label)) if label in result else "the batch is what it sums over"


@rule(aten.scaled_dot_product_attention)
def _attention(graph: Graph, node: fx.Node, known: Known) -> Treatment | str:
    arguments = graph.arguments(node)
    places = []
    for name in ("query", "key", "value", "attn_mask"):
        operand = arguments[name]
        if operand in known:
            places.append((known[operand].axis - len(graph.shape(operand)), known[operand].inner))
        elif operand is not None and (name != "attn_mask" or len(graph.shape(operand)) > 2):
            return BOTH
    found = common(places)
    if found is None:
        return ELSEWHERE
    return Treatment(rank_of(graph, node) + found[0], found[1]) if found[0] <= -3 else MIXES


@rule(aten.embedding)
def _embedding(graph: Graph, node: fx.Node, known: Known) -> Treatment | str:
    found = operand_of(graph, node, known, "indices")
    return found if isinstance(found, str) else found.kept()


@rule(aten.embedding_bag)
def _embedding_bag(graph: Graph, node: fx.Node, known: Known) -> Treatment | str:
    """Bags of equal lengths, as `embedding_bag` of a matrix of ids has them: offsets are 0, length, 2*length, ..."""
    found = operand_of(graph, node, known, "indices")
    if isinstance(found, str):
        return found
    arguments = graph.arguments(node)
    weighed = arguments["per_sample_weights"] is not None or arguments["include_last_offset"]
    others = [u for u in node.users if u.users and (u.target is not operator.getitem or u.args[1] != 0)]
    if weighed or others or len(node.args) < 3:
        return UNKNOWN
    return Treatment(0, first="offsets", results=1) if _steps_by(graph, arguments["offsets"], found) else UNKNOWN


def _steps_by(graph: Graph, offsets: fx.Node, found: Once) -> bool:
    if not graph.is_op(offsets, aten.arange.start_step) or not isinstance(found.inner, int):
        return False
    arguments = graph.arguments(offsets)
    return arguments["start"] == 0 and arguments["step"] == found.inner


@rule(aten.one_hot)
def _one_hot(graph: Graph, node: fx.Node, known: Known) -> Treatment | str:
    found = operand_of(graph, node, known, "self")
    return found if isinstance(found, str) else found.kept()


@rule(aten.gather)
def _gather(graph: Graph, node: fx.Node, known: Known) -> Treatment | str:
    arguments = graph.arguments(node)
    source, index = arguments["self"], arguments["index"]
    if source not in known or index not in known:
        return BOTH
    if known[source].axis != known[index].axis or known[source].axis == arguments["dim"] % len(graph.shape(source)):
        return MIXES
    return known[source].kept() if one(known[source].inner) and one(known[index].inner) else MIXES


@rule(aten.index.Tensor)
def _index(graph: Graph, node: fx.Node, known: Known) -> Treatment | str:
    arguments = graph.arguments(node)
    source, indices = arguments["self"], list(arguments["indices"])
    at = [i for i, index in enumerate(indices) if index is not None]
    if source not in known:  # a table by ids: `weight[ids]`
        if at != [0] or indices[0] not in known or _is_bool(graph, indices[0]):
            return BOTH
        return known[indices[0]].kept()
    found = known[source]
    if any(index in known or _is_bool(graph, index) for index in indices if index is not None):
        return BOTH
    if found.axis in at:
        return MIXES
    wide = max(len(graph.shape(indices[i])) for i in at)
    together = at == list(range(at[0], at[0] + len(at)))
    if together and found.axis < at[0]:
        return found.kept()
    free = found.axis - sum(i < found.axis for i in at)
    return Treatment(free + wide, found.inner)


def _is_bool(graph: Graph, index: fx.Node) -> bool:
    return graph.dtype(index) in (torch.bool, torch.uint8)


def is_elementwise(node: fx.Node) -> bool:
    """Whether each entry of the result follows from the operands' entries at its place."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    return torch.Tag.pointwise in node.target.tags or rule_of(node.target) is _elementwise
