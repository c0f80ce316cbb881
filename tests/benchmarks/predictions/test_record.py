"""A small model from its diagnosis to the measured gains of what was predicted, in real processes."""

from __future__ import annotations

import math

import pytest

from benchmarks.predictions.record import TRAINING, header, record_variant
from benchmarks.predictions.variants import Variant
from optimizer.errors import load_catalogue

MODEL = """
import torch

BATCH = 64


class Model(torch.nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.first = torch.nn.Linear(width, width)
        self.second = torch.nn.Linear(width, width)

    def forward(self, x):
        return torch.relu(self.first(x)) * torch.sigmoid(self.second(x))


def get_init_inputs():
    return []


def get_inputs():
    return [torch.randn(BATCH, 256)]
"""
KEY = "rewritable_structure: pass merge_parallel_linears"


@pytest.mark.whole
def test_a_variants_predictions_are_recorded_beside_what_the_remedies_gave() -> None:
    load_catalogue()
    one = record_variant(Variant("small", {}, MODEL), header(sets=2, rounds=3))
    assert one.lost is None and one.is_original and one.seconds > 0
    assert one.operations["aten.linear"] == 2 and one.call_ms
    gain = next(gain for gain in one.gains if gain.key == KEY)
    assert gain.not_measured == "" and len(gain.log_speedups) == len(one.load_averages) == 2
    assert all(math.isfinite(log) for log in gain.log_speedups)
    # none to a tenth of the time at the two lines, as it was worked out and not as it was corrected
    assert gain.low == 1.0 and gain.cost_share is not None
    assert gain.high == pytest.approx(1 / (1 - 0.1 * gain.cost_share), abs=1e-3)


@pytest.mark.whole
def test_a_variant_whose_numbers_do_not_fit_together_is_lost_and_says_why() -> None:
    load_catalogue()
    broken = MODEL.replace("torch.randn(BATCH, 256)", "torch.randn(BATCH, 128)")
    one = record_variant(Variant("broken", {"sizes": 0.5}, broken), header())
    assert one.gains == [] and one.lost is not None and one.lost != TRAINING
    assert one.lost.startswith("capturing:user:")
