"""Values that a person worked out."""

from __future__ import annotations

import math

import torch

import kernels

kernels.load()
ops = torch.ops.fuseworks


def near(got: torch.Tensor, want: list[object]) -> None:
    torch.testing.assert_close(got, torch.tensor(want), rtol=1e-5, atol=1e-6)


def test_add_rms_norm() -> None:
    x, residual = torch.tensor([[1.0, 5.0]]), torch.tensor([[2.0, -1.0]])
    normed, total = ops.add_rms_norm(x, residual, torch.tensor([2.0, 1.0]), 0.0)
    assert total.tolist() == [[3.0, 4.0]]
    torch.testing.assert_close(normed, torch.tensor([[6.0, 4.0]]) / 12.5**0.5)  # mean(9, 16) = 12.5


def test_add_layer_norm() -> None:
    x, residual = torch.tensor([[1.0, 5.0]]), torch.tensor([[2.0, 2.0]])
    normed, total = ops.add_layer_norm(x, residual, torch.tensor([2.0, 1.0]), torch.tensor([0.5, 0.0]), 0.0)
    assert total.tolist() == [[3.0, 7.0]]
    near(normed, [[-1.5, 1.0]])  # mean 5, deviation 2


def test_rope_turns_by_a_right_angle() -> None:
    cos, sin = torch.zeros(1, 2), torch.ones(1, 2)
    near(ops.rope(torch.tensor([[3.0, 4.0]]), cos, sin), [[-4.0, 3.0]])


def test_fm_second_order_is_the_sum_over_all_pairs() -> None:
    x = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]])
    near(ops.fm_second_order(x, False), [11.0 + 17.0 + 39.0])  # 1*3+2*4, 1*5+2*6, 3*5+4*6


def test_cross_entropy_of_equal_logits_is_the_log_of_their_number() -> None:
    loss = ops.cross_entropy(torch.zeros(3, 4), torch.tensor([0, -100, 2]), -100, "mean")
    near(loss, math.log(4))  # type: ignore[arg-type]


def test_weighted_bce() -> None:
    x, y = torch.zeros(1, 2), torch.tensor([[1.0, 0.0]])
    weight, positive = torch.tensor([1.0, 3.0]), torch.tensor([5.0, 7.0])
    loss = ops.weighted_bce(x, y, weight, positive, "sum")
    near(loss, (5 * 1 + 3) * math.log(2))  # type: ignore[arg-type]


def test_masked_pooling_leaves_the_padding_out() -> None:
    x = torch.tensor([[[2.0], [4.0], [900.0]]])
    near(ops.masked_pooling(x, torch.tensor([[True, True, False]]), 0.0, 1.0), [[3.0]])


def test_embedding_bag_of_nothing_is_zero() -> None:
    table = torch.tensor([[1.0], [10.0], [100.0]])
    found = ops.embedding_bag(table, torch.tensor([0, 2, 1]), torch.tensor([0, 2, 2]), True)
    near(found, [[50.5], [0.0], [10.0]])


def test_embedding_lookup_adds_where_a_features_rows_begin() -> None:
    table = torch.arange(5.0).unsqueeze(1)
    near(ops.embedding_lookup(table, torch.tensor([[1, 1]]), torch.tensor([0, 3])), [[[1.0], [4.0]]])


def test_jagged_to_padded_and_back() -> None:
    values, offsets = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([0, 1, 1, 3])
    padded = ops.jagged_to_padded(values, offsets, 2, -1.0)
    near(padded.squeeze(-1), [[1.0, -1.0], [-1.0, -1.0], [2.0, 3.0]])
    near(ops.padded_to_jagged(padded, offsets, 3), [[1.0], [2.0], [3.0]])


def test_jagged_softmax_adds_up_to_one_in_each_sequence() -> None:
    found = ops.jagged_softmax(torch.tensor([[0.0], [math.log(3.0)], [5.0]]), torch.tensor([0, 2, 3]))
    near(found, [[0.25], [0.75], [1.0]])


def test_topk_gating() -> None:
    weights, ids = ops.topk_gating(torch.log(torch.tensor([[1.0, 4.0, 3.0]])), 2, True)
    assert ids.tolist() == [[1, 2]]
    near(weights, [[4 / 7, 3 / 7]])


def test_bucketize_on_and_beside_a_boundary() -> None:
    x, edges = torch.tensor([0.5, 1.0, 1.5, float("nan")]), torch.tensor([1.0, 2.0])
    assert ops.bucketize(x, edges, False).tolist() == [0, 0, 1, 2]
    assert ops.bucketize(x, edges, True).tolist() == [0, 1, 1, 2]


def test_hash_features_is_never_negative() -> None:
    assert ops.hash_features(torch.tensor([[-1, 12]]), torch.tensor([7, 5])).tolist() == [[6, 2]]


def test_rms_norm_int8_of_the_largest_is_127() -> None:
    quantised, scale = ops.rms_norm_int8(torch.tensor([[3.0, -4.0]]), None, 0.0, 1e-8)
    assert quantised.tolist() == [[95, -127]]  # 3 / 4 * 127 = 95.25
    near(scale, [[4 / 12.5**0.5 / 127]])


def test_hstu_attention_of_one_step() -> None:
    q = torch.full((1, 1, 1, 1), 2.0)
    out = ops.hstu_attention(q, q, q, None, None, 0.5, 4.0)  # a score of 2
    near(out.flatten(), [2 / (1 + math.exp(-2)) / 4 * 2])


def test_a_query_that_sees_no_key_gives_zero() -> None:
    q = torch.ones(1, 1, 1, 4)
    assert ops.flash_attention(q, q, q, torch.zeros(1, 1, dtype=torch.bool), False, 1.0).tolist() == [[[[0.0] * 4]]]


def test_jagged_attention_does_not_look_into_the_next_sequence() -> None:
    v = torch.tensor([1.0, 3.0, 100.0]).view(3, 1, 1)
    found = ops.jagged_attention(v * 0, v * 0, v, torch.tensor([0, 2, 3]), 2, False, 1.0)
    near(found.flatten(), [2.0, 2.0, 100.0])


def test_rowwise_adagrad_adds_up_the_gradients_of_a_row_first() -> None:
    table, state = torch.tensor([[1.0, 1.0], [5.0, 5.0]]), torch.tensor([0.0, 7.0])
    grads = torch.tensor([[1.0, 2.0], [2.0, 2.0]])
    ops.rowwise_adagrad(table, state, torch.tensor([0, 0]), grads, 1.0, 1e-9)
    near(state, [12.5, 7.0])  # the mean of 9 and 16
    near(table, [[1 - 3 / 12.5**0.5, 1 - 4 / 12.5**0.5], [5.0, 5.0]])


def test_cross_layer() -> None:
    x0, x, weight = torch.tensor([[2.0, 3.0]]), torch.tensor([[1.0, 1.0]]), torch.tensor([[1.0, 2.0], [0.0, 1.0]])
    near(ops.cross_layer(x0, x, weight, torch.tensor([1.0, 0.0])), [[2 * 4 + 1.0, 3 * 1 + 1.0]])


def test_gated_sum() -> None:
    experts, gate = torch.tensor([[[1.0], [5.0]]]), torch.log(torch.tensor([[1.0, 3.0]]))
    near(ops.gated_sum(experts, gate), [[0.25 * 1 + 0.75 * 5]])
