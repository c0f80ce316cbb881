"""Measures every linear layer of a graph in a lower precision, and chooses which go to it. Runs in a child.

For each layer: its time alone in both precisions, and for those that would gain, what the outputs are off against
float64 when it alone is in the lower one. Then the choice (`choosing`), bounded by the error of all chosen layers.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from optimizer.compiling.int8 import linear_layers, shape_of
from optimizer.optimizing.graph import Graph
from optimizer.optimizing.precisions.choosing import Choice, Option, choose, why
from optimizer.optimizing.precisions.layer_times import layer_ms
from optimizer.optimizing.precisions.swaps import Swaps
from optimizer.result import LayerPrecision, OutputNumerics
from optimizer.spec import Precision
from optimizer.verifying.numerics import MOST, Rule
from optimizer.verifying.questions import Question


def measure(
    graph: Graph, questions: Sequence[Question], names: list[str], precision: Precision, rule: Rule, seconds: float
) -> tuple[list[LayerPrecision], Choice]:
    """One entry for each linear layer with constant weights, in the graph's order. `seconds` bounds the measuring of
    errors: those that would save most come first."""
    began = time.monotonic()
    layers = linear_layers(graph)
    if not layers:
        return [], Choice(frozenset(), 0.0)
    swaps = Swaps(graph, layers, questions, names)
    options = _timed(swaps, precision)
    errors: dict[int, float] = {}
    for option in sorted(options, key=lambda option: -option.saved_ms):
        if option.worth and time.monotonic() - began < seconds:
            judged = swaps.judged({option.layer: precision}, rule)
            errors[option.layer] = worst_error(judged)
            options[option.layer] = replace(option, share=share(judged))
    choice = choose(options, lambda some: share(swaps.judged(dict.fromkeys(some, precision), rule)))
    found = []
    for option, layer in zip(options, layers, strict=True):
        inputs, outputs = shape_of(layer)
        chosen, error = option.layer in choice.layers, errors.get(option.layer)
        found.append(
            LayerPrecision(
                node=layer.node.name,
                source=graph.source(layer.node),
                inputs=inputs,
                outputs=outputs,
                rows=swaps.rows(layer),
                precision=precision if chosen else "float32",
                tried=precision,
                error=error,
                share_of_allowed=None if option.share is None else min(option.share, MOST),
                float32_ms=option.full_ms,
                tried_ms=option.low_ms,
                reason=why(option, error, chosen, precision),
            )
        )
    return found, choice


def _timed(swaps: Swaps, precision: Precision) -> list[Option]:
    """Layers of one shape are timed once."""
    times: dict[tuple[int, int, int], list[float]] = {}
    options = []
    for place, layer in enumerate(swaps.layers):
        key = (swaps.rows(layer), *shape_of(layer))
        if key not in times:
            times[key] = layer_ms(key[0], layer.weight, ["float32", precision])
        options.append(Option(place, *times[key]))
    return options


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
