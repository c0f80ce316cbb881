"""The cost of one sample of each kernel, counted by hand: bytes = numbers read and written times their size."""

from __future__ import annotations

import pytest
import torch

import kernels

kernels.load()
# kernel: sample, bytes, floating point operations
COSTS = {
    "add_layer_norm": ("5x123", 4 * (4 * 615 + 2 * 123), 8 * 615),
    "add_rms_norm": ("5x123", 4 * (4 * 615 + 123), 5 * 615),
    "broadcast_linear": ("3x5, 7+9 to 11", 4 * (21 + 135 + 176 + 11 + 165), 3 * 2 * 7 * 11 + 15 * 11 * (2 * 9 + 1)),
    "bucketize": ("5x7", 4 * (35 + 9) + 8 * 35, 35 * 4),
    "cross_entropy": ("5x123 mean", 4 * 615 + 8 * 5, 4 * 615),
    "cross_layer": ("5x23", 4 * (3 * 115 + 529 + 23), 115 * (2 * 23 + 3)),
    "din_attention": (
        "3x5x7",
        4 * (2 * 21 + 105 + 252 + 9 + 54 + 6 + 6 + 1) + 15,
        15 * (6 * 7 * 9 + 2 * 9 * 6 + 2 * 6 + 4 * 7 + 4) + 3 * 2 * 7 * 9,
    ),
    "dot_interaction": ("lower triangle", 4 * (432 + 3 * 36) + 8 * 2 * 36, 2 * 3 * 36 * 16),
    "embedding_bag": ("sums", 4 * (9 * 7 + 4 * 7) + 8 * (9 + 4), 9 * 7),
    "embedding_lookup": ("5x3 of 7", 4 * 2 * 15 * 7 + 8 * (15 + 3), 0),
    "flash_attention": ("causal", 4 * 4 * 2 * 70 * 16, 2 * (70 * 71 // 2) * (2 * 16 + 2 * 16 + 4)),
    "fm_second_order": ("5x3x7", 4 * (105 + 5), 3 * 105 + 3 * 35),
    "gated_activation": ("5x123 silu", 4 * 3 * 615, 5 * 615),
    "gated_sum": ("5x4x23", 4 * (460 + 20 + 115), 2 * 460 + 3 * 20),
    "group_norm_silu": ("2x6x5x7", 4 * (2 * 420 + 2 * 6), 11 * 420),
    "hash_features": ("5x3", 8 * (15 + 15 + 3), 0),
    "hstu_attention": ("2x7x3x5", 4 * (4 * 210 + 98 + 49), 2 * 3 * 49 * (2 * 5 + 2 * 5 + 6)),
    "int8_linear": ("5x23 to 7", 4 * (115 + 35 + 7 + 7) + 161, 2 * 5 * 7 * 23),
    "jagged_attention": ("ragged, causal", 4 * 4 * 126 + 8 * 5, 648),  # 18 rows see 1.125 keys each, 32 for a score
    "jagged_softmax": ("ragged", 4 * 2 * 27 + 8 * 5, 4 * 27),
    "jagged_to_padded": ("ragged", 4 * (63 + 140) + 8 * 5, 0),
    "layer_norm": ("5x123 gelu_tanh", 4 * (2 * 615 + 2 * 123), (7 + 8) * 615),
    "linear_cross_entropy": ("5x23 to 70 mean", 4 * (115 + 1610) + 8 * 5, 350 * (2 * 23 + 4)),
    "masked_pooling": ("bool mask", 4 * (805 + 115) + 35, 2 * 805 + 35 + 115),
    "modulate": ("3x5x123", 4 * (2 * 1845 + 2 * 369 + 2 * 123), 9 * 1845),
    "padded_to_jagged": ("ragged", 4 * 2 * 63 + 8 * 5, 0),
    "per_token_linear": ("5x3x23 to 7, gelu", 4 * (345 + 483 + 105 + 21), 105 * (2 * 23 + 8)),
    "rms_norm": ("5x123", 4 * (2 * 615 + 123), 4 * 615),
    "rms_norm_int8": ("5x123", 4 * 615 + 615 + 4 * 5 + 4 * 123, 8 * 615),
    "rope": ("angles of a step", 4 * (2 * 360 + 2 * 60), 3 * 360),
    "rowwise_adagrad": ("9 of 6, width 7", 4 * 3 * 63 + 4 * 2 * 9 + 8 * 9, 6 * 63),
    "topk_gating": ("7x8, 2", 4 * (56 + 14) + 8 * 14, 56 * 4 + 2 * 2 * 56),
    "weighted_bce": ("three tasks", 4 * (2 * 99 + 2 * 3), 10 * 99),
}


def test_every_kernels_cost_is_counted() -> None:
    assert sorted(COSTS) == kernels.KERNELS.names()


@pytest.mark.parametrize("name", COSTS)
def test_the_cost_is_what_a_hand_counts(name: str) -> None:
    kernel = kernels.KERNELS.get(name)
    wanted, moved, flops = COSTS[name]
    dtype = torch.int64 if name == "hash_features" else torch.float32
    (sample,) = [s for s in kernel.samples(dtype) if s.name == wanted]
    cost = kernel.cost(*sample.args)
    assert (cost.bytes, cost.flops) == (moved, flops)


@pytest.mark.parametrize("name", COSTS)
def test_the_cost_of_a_production_size_is_known_without_its_memory(name: str) -> None:
    kernel = kernels.KERNELS.get(name)
    cost = kernel.cost(*kernel.typical(next(iter(kernel.tolerances))).args)
    assert cost.bytes > 500_000
    assert type(cost.bytes) is type(cost.flops) is int
