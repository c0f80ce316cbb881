"""Measures every layer of a graph in a lower precision, and chooses which go to it. Runs in a child.

For each layer: its time alone in both precisions. Where all that would gain keep the bound together, that is the
choice; else what the outputs are off against float64 when each of them alone is in the lower one, and the choice
(`choosing`), bounded by the error of all chosen layers.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import fx
from torch.utils import _pytree as pytree

from optimizer.compiling.int8 import may_be_weight_only
from optimizer.compiling.layers import bfloat16_layers, int8_layers
from optimizer.optimizing.graph import Graph
from optimizer.optimizing.precisions.choosing import Choice, Option, choose, every_one, why, with_company
from optimizer.optimizing.precisions.layer_times import layer_ms, operation_ms
from optimizer.optimizing.precisions.swaps import Swaps
from optimizer.result import LayerPrecision, OutputNumerics
from optimizer.spec import Precision
from optimizer.verifying.numerics import MOST, Rule
from optimizer.verifying.questions import Question

WEIGHT_ONLY = "int8_weights"
WORDS = {WEIGHT_ONLY: "int8 of the weights alone"}
FEW_ROWS = 16  # for more, no layer gained from it that was measured


def measure(
    graph: Graph,
    questions: Sequence[Question],
    names: list[str],
    precision: Precision,
    rule: Rule,
    seconds: float,
    growth: float = 1.0,
) -> tuple[list[LayerPrecision], Choice]:
    """One entry for each layer that may go to `precision`, in the graph's order. `seconds` bounds the measuring of
    errors: those that would save most come first. `growth`: how many times as many rows other calls have."""
    began = time.monotonic()
    layers = bfloat16_layers(graph) if precision == "bfloat16" else int8_layers(graph)
    if not layers:
        return [], Choice(frozenset(), 0.0)
    swaps = Swaps(graph, layers, questions, names)
    options, ways = _timed(swaps, precision, growth)
    errors: dict[int, float] = {}

    @functools.cache
    def together(some: frozenset[int]) -> float:
        return share(swaps.judged({place: ways[place] for place in some}, rule))

    choice = every_one(options, together)
    if choice is None:
        for option in sorted(options, key=lambda option: -option.saved_ms):
            if option.worth and time.monotonic() - began < seconds:
                judged = swaps.judged({option.layer: ways[option.layer]}, rule)
                errors[option.layer] = worst_error(judged)
                options[option.layer] = replace(option, share=share(judged))
        choice = choose(options, together)
    if precision == "bfloat16":  # to int8 a layer's input is rounded, whatever its neighbours are in
        choice = with_company(choice, options, together)
    found = []
    for option, layer in zip(options, layers, strict=True):
        chosen, error = option.layer in choice.layers, errors.get(option.layer)
        found.append(
            LayerPrecision(
                node=layer.node.name,
                source=graph.source(layer.node),
                operation=layer.shape.op,
                inputs=layer.shape.inputs,
                outputs=layer.shape.outputs,
                rows=swaps.rows(layer),
                precision=precision if chosen else "float32",
                tried=precision,
                weight_only=ways[option.layer] == WEIGHT_ONLY,
                error=error,
                share_of_allowed=None if option.share is None else min(option.share, MOST),
                float32_ms=option.full_ms,
                tried_ms=option.low_ms,
                reason=why(option, error, chosen, WORDS.get(ways[option.layer], precision)),
            )
        )
    return found, choice


def _timed(swaps: Swaps, precision: Precision, growth: float) -> tuple[list[Option], list[str]]:
    """The options, and how each would be computed: in int8 with its weights alone where that is faster. Layers of one
    shape are timed once."""
    times: dict[tuple[Any, ...], list[float]] = {}
    keys: dict[int, tuple[Any, ...]] = {}
    others: dict[fx.Node, Callable[[dict[fx.Node, Any]], None]] = {}
    for place, layer in enumerate(swaps.layers):
        if layer.linear is None:
            others[layer.node] = functools.partial(_time, layer.node, place, keys, times)
            continue
        keys[place] = (swaps.rows(layer), *layer.shape)
        if keys[place] not in times:
            rows, inputs = swaps.rows(layer), layer.linear.weight.shape[1]
            by_weight = precision == "int8" and rows * growth <= FEW_ROWS and may_be_weight_only(inputs)
            asked = ["float32", precision, *([WEIGHT_ONLY] if by_weight else [])]
            times[keys[place]] = layer_ms(rows, layer.linear.weight, asked)
    if others:
        swaps.show(others)
    options, ways = [], []
    for place in range(len(swaps.layers)):
        full_ms, *low_ms = times[keys[place]]
        options.append(Option(place, full_ms, min(low_ms)))
        ways.append([precision, WEIGHT_ONLY][low_ms.index(min(low_ms))])
    return options, ways


def _time(
    node: fx.Node,
    place: int,
    keys: dict[int, tuple[Any, ...]],
    times: dict[tuple[Any, ...], list[float]],
    values: dict[fx.Node, Any],
) -> None:
    """What is no linear layer, with the inputs that it has in the graph; files its times."""
    tensors = [leaf for leaf in pytree.tree_leaves(list(values.values())) if isinstance(leaf, torch.Tensor)]
    keys[place] = (node.target, *((tuple(tensor.shape), tensor.dtype) for tensor in tensors), _plain(node))
    if keys[place] not in times:
        times[keys[place]] = operation_ms(node, values)


def _plain(node: fx.Node) -> str:
    """Its arguments that are no tensors: strides, paddings, scales."""
    return str(fx.node.map_arg((node.args, node.kwargs), lambda n: None))


def share(judged: Sequence[OutputNumerics]) -> float:
    """What the output that is nearest to its bound takes of it; infinite where an answer is wrong by its form."""
    found = []
    for row in judged:
        found.append(_quotient(row.error, row.allowed))
        if row.worst_column is not None:
            found.append(_quotient(row.worst_column.error, row.worst_column.allowed))
        if not row.passed and max(found) <= 1.0:
            return float("inf")
    return max(found, default=0.0)


def worst_error(judged: Sequence[OutputNumerics]) -> float:
    return max((row.error for row in judged), default=0.0)


def _quotient(error: float, allowed: float) -> float:
    if error == 0.0:
        return 0.0
    return error / allowed if allowed > 0 else float("inf")


def questions_of(arrays: Sequence[np.ndarray], sets: int, inputs: int, items: int) -> list[Question]:
    """As they arrive: for each set its inputs, then the true answers."""
    per_set = len(arrays) // sets
    found = []
    for number in range(sets):
        one = arrays[number * per_set : (number + 1) * per_set]
        found.append(Question(f"set {number}", "random", list(one[:inputs]), items, truth=list(one[inputs:])))
    return found
