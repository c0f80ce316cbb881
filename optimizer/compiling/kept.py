"""Which layers a step keeps out of a lower precision, by structure: shape, place among their like, or the last.

No torch: the planner says it in these words, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

from optimizer.spec import KeepFloat32, LayerShape


class Shape(NamedTuple):
    """What a layer is called by: see `LayerShape`. None for a size that varies."""

    inputs: int | None
    outputs: int | None
    op: str = "linear"


def kept_layers(shapes: Sequence[Shape], keep: KeepFloat32) -> set[int]:
    """Places among all layers of a graph, in its order, of those that are kept. A shape that no layer has keeps none: a
    recipe of another model may name it."""
    linears = [place for place, shape in enumerate(shapes) if shape.op == "linear"]
    kept = set(linears[-keep.last_linears :]) if keep.last_linears else set()
    like = _alike(shapes)
    for layer in keep.layers:
        places = like.get(Shape(layer.inputs, layer.outputs, layer.op), [])
        kept |= {places[n] for n in layer.nth if n < len(places)} if layer.nth else set(places)
    return kept


def in_words_of_shapes(shapes: Sequence[Shape], kept: Collection[int]) -> list[LayerShape]:
    """The inverse: what `kept_layers` would have to be given to keep these, in the fewest words."""
    found = []
    for shape, places in _alike(shapes).items():
        nth = [n for n, place in enumerate(places) if place in kept]
        if nth:
            found.append(LayerShape(**shape._asdict(), nth=[] if len(nth) == len(places) else nth))
    return found


def _alike(shapes: Sequence[Shape]) -> dict[Shape, list[int]]:
    like: dict[Shape, list[int]] = defaultdict(list)
    for place, shape in enumerate(shapes):
        like[shape].append(place)
    return like
