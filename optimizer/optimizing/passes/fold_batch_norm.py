"""Batch normalisation in evaluation, folded into the convolution or linear layer before it.

With s = weight / sqrt(running_var + eps): W' = s * W (per output channel) and b' = s * (b - running_mean) + bias, in
float64, rounded once. Refuses batch statistics (training), a layer whose output others need too, statistics or weights
that are not constant, transposed convolutions, and a linear layer whose features the norm does not run over.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import fx

from optimizer.optimizing.base import Pass, Report, register_pass
from optimizer.optimizing.graph import Graph
from optimizer.optimizing.matching import only_user, skip_noops

aten = torch.ops.aten
NORMS = (aten.batch_norm, aten._native_batch_norm_legit_no_training, aten.native_batch_norm)
CONVOLUTIONS = (aten.conv1d, aten.conv2d, aten.conv3d)
TRANSPOSED = (aten.conv_transpose1d, aten.conv_transpose2d, aten.conv_transpose3d)


@dataclass
class _Affine:
    """What a batch norm in evaluation does to channel c: x * scale[c] + shift[c]. Float64."""

    source: fx.Node
    scale: torch.Tensor
    shift: torch.Tensor


@register_pass
class FoldBatchNorm(Pass):
    name = "fold_batch_norm"
    title = "Fold batch norm into the layer before it"
    summary = "Convolution or linear followed by batch norm in evaluation becomes one layer with scaled weights."
    numerics: ClassVar[Literal["exact", "reassociates"]] = "reassociates"
    order = 40

    def apply(self, graph: Graph, options: Any, report: Report) -> None:
        for node in graph.operations(*NORMS):
            affine = _affine(graph, node)
            if isinstance(affine, str):
                report.refused(node, affine)
                continue
            layer = skip_noops(graph, affine.source)
            reason = _why_not(graph, layer, affine.source)
            if reason is not None:
                report.refused(node, reason)
                continue
            result = _first_output(node)
            if isinstance(result, str):
                report.refused(node, result)
                continue
            folded = _folded(graph, layer, affine)
            if isinstance(folded, str):
                report.refused(node, folded)
                continue
            report.applied(node, f"folded into the weights of {layer.name}")
            graph.replace(result, folded)


def _affine(graph: Graph, node: fx.Node) -> _Affine | str:
    given = graph.arguments(node)
    if given.get("training"):
        return "it normalises with the batch's own statistics (training)"
    if given["running_mean"] is None or given["running_var"] is None:
        return "it has no running statistics and normalises with the batch's own"
    values = {}
    for name in ("running_mean", "running_var", "weight", "bias"):
        value = None if given[name] is None else graph.constant_value(given[name])
        if given[name] is not None and value is None:
            return f"its {name} is not constant"
        values[name] = None if value is None else value.double()
    mean, variance = values["running_mean"], values["running_var"]
    assert mean is not None
    assert variance is not None
    scale = torch.rsqrt(variance + given["eps"])
    if values["weight"] is not None:
        scale = scale * values["weight"]
    shift = -mean * scale if values["bias"] is None else values["bias"] - mean * scale
    return _Affine(given["input"], scale, shift)


def _why_not(graph: Graph, layer: fx.Node, source: fx.Node) -> str | None:
    if graph.is_op(layer, *TRANSPOSED):
        return "a transposed convolution feeds it"
    if graph.is_op(layer, aten.convolution):
        if graph.arguments(layer)["transposed"]:
            return "a transposed convolution feeds it"
    elif graph.is_op(layer, aten.linear):
        if len(graph.shape(layer)) != 2:
            return "it runs over dimension 1, the linear layer's features are the last dimension"
    elif not graph.is_op(layer, *CONVOLUTIONS):
        return "no convolution or linear layer feeds it"
    node = source
    while True:
        if only_user(node) is None:
            return f"the output of {node.name} has other users"
        if node is layer:
            return None
        node = node.args[0]  # type: ignore[assignment]


def _first_output(node: fx.Node) -> fx.Node | str:
    """The normed tensor: the node itself, or its first taken output."""
    if not isinstance(node.meta["val"], list | tuple):
        return node
    taken = [user for user in node.users if user.target is operator.getitem]
    if [user.args[1] for user in taken] != [0]:
        return "its saved statistics are used"
    return taken[0]


def _folded(graph: Graph, layer: fx.Node, affine: _Affine) -> fx.Node | str:
    given = graph.arguments(layer)
    weight = graph.constant_value(given["weight"])
    if weight is None:
        return f"the weight of {layer.name} is not constant"
    bias = None if given["bias"] is None else graph.constant_value(given["bias"])
    if given["bias"] is not None and bias is None:
        return f"the bias of {layer.name} is not constant"
    per_channel = affine.scale.reshape(-1, *[1] * (weight.dim() - 1))
    shifted = affine.shift if bias is None else bias.double() * affine.scale + affine.shift
    names = {
        "weight": graph.constant((weight.double() * per_channel).to(weight.dtype), f"{layer.name}_weight"),
        "bias": graph.constant(shifted.to(weight.dtype), f"{layer.name}_bias"),
    }
    args = [names.get(name, value) for name, value in given.items()]
    assert isinstance(layer.target, torch._ops.OpOverload)
    return graph.call(layer.target, *args, before=layer, like=layer)
