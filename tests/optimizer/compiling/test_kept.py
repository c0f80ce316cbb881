"""Which layers a step keeps, by structure; and the fewest words for it."""

from __future__ import annotations

import pytest

from optimizer.compiling.kept import Shape, in_words_of_shapes, kept_layers
from optimizer.spec import KeepFloat32, LayerShape

SHAPES = [Shape(8, 16), Shape(16, 16), Shape(8, 16), Shape(16, 1), Shape(8, 16)]


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        ({}, set()),
        ({"last_linears": 2}, {3, 4}),
        ({"last_linears": 9}, {0, 1, 2, 3, 4}),
        ({"layers": [{"inputs": 8, "outputs": 16}]}, {0, 2, 4}),
        ({"layers": [{"inputs": 8, "outputs": 16, "nth": [0, 2]}]}, {0, 4}),
        ({"layers": [{"inputs": 8, "outputs": 16, "nth": [3]}]}, set()),
        ({"layers": [{"inputs": 16, "outputs": 8}]}, set()),
        ({"last_linears": 1, "layers": [{"inputs": 16, "outputs": 1}]}, {3, 4}),
    ],
)
def test_layers_are_kept_by_shape_by_place_among_their_like_and_at_the_end(keep: dict, kept: set[int]) -> None:
    assert kept_layers(SHAPES, KeepFloat32.model_validate(keep)) == kept


def test_of_other_operations_the_name_is_part_of_what_a_layer_is_called_by() -> None:
    shapes = [Shape(8, 16, "matmul"), Shape(8, 16), Shape(8, None, "matmul"), Shape(8, 16, "matmul")]
    layers = in_words_of_shapes(shapes, {0, 2})
    assert [str(layer) for layer in layers] == ["matmul 8 to 16 (0)", "matmul 8 to any"]
    assert kept_layers(shapes, KeepFloat32(layers=layers)) == {0, 2}
    assert kept_layers(shapes, KeepFloat32(last_linears=1)) == {1}
    assert kept_layers(shapes, KeepFloat32(layers=[LayerShape(op="matmul", inputs=8, outputs=16)])) == {0, 3}


def test_a_rewrite_elsewhere_moves_no_layer_that_is_named_by_its_shape() -> None:
    keep = KeepFloat32(layers=[LayerShape(inputs=8, outputs=16, nth=[1])])
    assert kept_layers([Shape(8, 16), Shape(4, 4), Shape(4, 4), Shape(8, 16)], keep) == {3}
    assert kept_layers([Shape(8, 16), Shape(4, 8), Shape(8, 16)], keep) == {2}


@pytest.mark.parametrize(
    ("kept", "words"),
    [(set(), []), ({0, 2, 4}, ["8 to 16"]), ({3, 1}, ["16 to 16", "16 to 1"]), ({2, 4}, ["8 to 16 (1, 2)"])],
)
def test_it_says_what_is_kept_in_the_fewest_words_and_they_mean_the_same(kept: set[int], words: list[str]) -> None:
    layers = in_words_of_shapes(SHAPES, kept)
    assert [str(layer) for layer in layers] == words
    assert kept_layers(SHAPES, KeepFloat32(layers=layers)) == kept
