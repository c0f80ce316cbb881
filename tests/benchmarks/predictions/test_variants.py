"""Variants: only the numbers of the kinds asked for are scaled, and lines stay what they are."""

from __future__ import annotations

from pathlib import Path

from benchmarks.predictions.__main__ import MODELS, ROOT
from benchmarks.predictions.variants import in_turn, scaled, variants

SOURCE = """import torch

SEED = 3
BATCH = 2
ITEMS, NAMES = 1_000, ["a"]
ROWS = [40, 3,
        7]
small = 5


class Model(torch.nn.Module):
    def __init__(self, rows, dim=64, heads=4, hidden=(32, 16), *, rate=0.1, table=ITEMS):
        self.layer = torch.nn.Linear(8, 8)
"""


def changed(factors: dict[str, float]) -> list[str]:
    after = scaled(SOURCE, factors).splitlines()
    before = SOURCE.splitlines()
    assert len(after) == len(before)
    return [line for line, was in zip(after, before, strict=True) if line != was]


def test_the_batch_is_scaled_alone_and_never_below_one() -> None:
    assert changed({"batch": 4}) == ["BATCH = 8"]
    assert changed({"batch": 0.25}) == ["BATCH = 1"]


def test_sizes_are_the_other_constants_in_capitals_but_for_seeds() -> None:
    assert changed({"sizes": 0.5}) == ['ITEMS, NAMES = 500, ["a"]', "ROWS = [20, 2,", "        4]"]


def test_defaults_of_the_constructor_are_widths_and_where_small_counts() -> None:
    line = "    def __init__(self, rows, dim={}, heads={}, hidden={}, *, rate=0.1, table=ITEMS):"
    assert changed({"widths": 2}) == [line.format(128, 4, "(64, 32)")]
    assert changed({"counts": 0.5}) == [line.format(64, 2, "(32, 16)")]


def test_what_scaling_does_not_change_is_no_variant(tmp_path: Path) -> None:
    file = tmp_path / "small.py"
    file.write_text("BATCH = 1\n")
    # a quarter and a half of one are one
    assert [one.factors for one in variants(file, 7)] == [{}, {"batch": 4}, {"batch": 2}]


def test_all_models_come_before_any_variant(tmp_path: Path) -> None:
    files = [tmp_path / "a.py", tmp_path / "b.py"]
    for file in files:
        file.write_text("BATCH = 8\n")
    assert [one.name for one in in_turn(files, 1)] == ["a (as it is)", "b (as it is)", "a (batch x4)", "b (batch x4)"]


def test_the_examples_have_forty_variants_and_all_of_them_are_python() -> None:
    examples = [file for file in MODELS if file.parent == ROOT / "examples"]
    found = in_turn(examples, 7)
    assert sum(bool(one.factors) for one in found) >= 40
    for one in found:
        compile(one.source, one.model, "exec")
