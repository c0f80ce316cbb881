"""Which linear layers a step keeps out of a lower precision, by structure: shape, place among their like, or the last.

No torch: the planner says it in these words, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from optimizer.spec import KeepFloat32, LayerShape

Shape = tuple[int, int]  # inputs, outputs


def kept_layers(shapes: Sequence[Shape], keep: KeepFloat32) -> set[int]:
    """Places among all linear layers of a graph, in its order, of those that are kept. A shape that no layer has keeps
    none: a recipe of another model may name it."""
    kept = set(range(len(shapes) - keep.last_linears, len(shapes))) if keep.last_linears else set()
    like = _alike(shapes)
    for layer in keep.layers:
        places = like.get((layer.inputs, layer.outputs), [])
        kept |= {places[n] for n in layer.nth if n < len(places)} if layer.nth else set(places)
    return {place for place in kept if place >= 0}


def in_words_of_shapes(shapes: Sequence[Shape], kept: Collection[int]) -> list[LayerShape]:
    """The inverse: what `kept_layers` would have to be given to keep these, in the fewest words."""
    found = []
    for (inputs, outputs), places in _alike(shapes).items():
        nth = [n for n, place in enumerate(places) if place in kept]
        if nth:
            found.append(LayerShape(inputs=inputs, outputs=outputs, nth=[] if len(nth) == len(places) else nth))
    return found


def _alike(shapes: Sequence[Shape]) -> dict[Shape, list[int]]:
    like: dict[Shape, list[int]] = defaultdict(list)
    for place, shape in enumerate(shapes):
        like[shape].append(place)
    return like
