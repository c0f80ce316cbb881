"""Batch normalisation in evaluation, folded into the convolution or linear layer before it, or into those behind it.

With s = weight / sqrt(running_var + eps) and t = bias - s * running_mean the norm is s * x + t per channel. The layer
before takes W' = s * W, b' = s * b + t per output channel; else every layer behind takes W' = W * s, b' = b + W t per
input channel. Float64, rounded once. Looks through permutations and what has no effect. Refuses batch statistics
(training), a layer whose output others need too, statistics or weights that are not constant, a norm that runs over
another dimension than the layer's channels, and padded or transposed layers behind a norm: their zeros are not shifted.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import fx

from optimizer.optimizing.base import Pass, Report, register_pass
from optimizer.optimizing.graph import Graph
from optimizer.optimizing.layers import (
    Layer,
    Weights,
    layer_before,
    layers_behind,
    rebuilt,
    with_scaled_input,
    with_scaled_output,
)

aten = torch.ops.aten
NORMS = (aten.batch_norm, aten._native_batch_norm_legit_no_training, aten.native_batch_norm)
CHANNELS = 1


@dataclass
class _Affine:
    """What a batch norm in evaluation does to channel c: x * scale[c] + shift[c]. Float64."""

    source: fx.Node
    scale: torch.Tensor
    shift: torch.Tensor


@register_pass
class FoldBatchNorm(Pass):
    name = "fold_batch_norm"
    title = "Fold batch norm into the layer beside it"
    summary = "Batch norm in evaluation beside a convolution or linear layer becomes part of that layer's weights."
    numerics: ClassVar[Literal["exact", "reassociates"]] = "reassociates"
    order = 40

    def apply(self, graph: Graph, options: Any, report: Report) -> None:
        for node in graph.operations(*NORMS):
            affine = _affine(graph, node)
            result = affine if isinstance(affine, str) else _first_output(node)
            if isinstance(affine, str) or isinstance(result, str):
                report.refused(node, str(result))
                continue
            reason = _into_layer_before(graph, node, affine, result, report)
            if reason is not None:
                reason = _into_layers_behind(graph, node, affine, result, report, reason)
            if reason is not None:
                report.refused(node, reason)


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


def _first_output(node: fx.Node) -> fx.Node | str:
    """The normed tensor: the node itself, or its first taken output."""
    if not isinstance(node.meta["val"], list | tuple):
        return node
    taken = [user for user in node.users if user.target is operator.getitem]
    if [user.args[1] for user in taken] != [0]:
        return "its saved statistics are used"
    return taken[0]


def _into_layer_before(graph: Graph, node: fx.Node, affine: _Affine, result: fx.Node, report: Report) -> str | None:
    layer = layer_before(graph, affine.source, CHANNELS, node)
    if not isinstance(layer, Layer):
        return layer or "no convolution or linear layer feeds it"
    weights = with_scaled_output(layer, affine.scale, affine.shift)
    if isinstance(weights, str):
        return weights
    report.applied(node, f"folded into the weights of {layer.node.name}")
    new = rebuilt(graph, layer, layer.input, weights)
    kept = new if affine.source is layer.node else affine.source
    graph.replace(layer.node, new)
    graph.replace(result, kept)
    return None


def _into_layers_behind(
    graph: Graph, node: fx.Node, affine: _Affine, result: fx.Node, report: Report, reason: str
) -> str | None:
    """`reason`: why the layer before it cannot take it."""
    layers = layers_behind(graph, result, CHANNELS)
    if layers is None:
        return reason
    if isinstance(layers, str):
        return f"{reason}; {layers}"
    weights: list[Weights] = []
    for layer in layers:
        scaled = with_scaled_input(layer, affine.scale, affine.shift)
        if isinstance(scaled, str):
            return f"{reason}; {scaled}"
        weights.append(scaled)
    names = ", ".join(layer.node.name for layer in layers)
    report.applied(node, f"folded into the weights of {names} behind it")
    for layer, one in zip(layers, weights, strict=True):
        graph.replace(layer.node, rebuilt(graph, layer, affine.source, one))
    return None
