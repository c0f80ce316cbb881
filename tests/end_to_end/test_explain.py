"""The command on a real example: a DLRM lowered and compiled for an H100 that is not here."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

from tests.end_to_end.support import EXAMPLES, answer, fuseworks


def test_it_predicts_a_dlrm_for_a_gpu_that_is_not_here_before_and_after_our_rewrites():
    found = answer(fuseworks("explain", EXAMPLES / "dlrm.py", "--target", "cuda:sm_90", "--json"))
    assert found["status"] == "succeeded" and found["sandbox"] != "none (trusted)"
    assert found["sizes"] == {"batch": 512}
    before, after = found["before"], found["after"]
    # the example's 26 tables are a gather each as uploaded, and one once merged
    assert "merge_embedding_tables" in found["applied"]
    assert before["kernels_launched"] - after["kernels_launched"] == -found["difference"]["kernels_launched"]
    assert before["kernels_launched"] - after["kernels_launched"] >= 25
    for side in (before, after):
        entries = [*side["kernels"], *side["extern_calls"]]
        assert side["predicted_ms"][0] == pytest.approx(sum(entry["bound_us"] for entry in entries) / 1e3)
        assert side["predicted_ms"][0] < side["predicted_ms"][1]
        assert sum(entry["launches"] for entry in entries) == side["kernels_launched"]
        for kernel in side["kernels"]:
            assert kernel["registers"] > 0 and kernel["spills"] == 0 and 0 < kernel["occupancy"] <= 1
            assert "def triton_" in kernel["triton_source"] and kernel["source_nodes"]
    products = [call for call in before["extern_calls"] if call["name"] == "aten.mm.out"]
    # batch 512; the bottom MLP is 13-512-256-32, the top one 383-512-256-1: 2·m·k·n each
    weights = 13 * 512 + 512 * 256 + 256 * 32 + 383 * 512 + 512 * 256 + 256
    assert sum(call["flops"] for call in products) == 2 * 512 * weights
    assert found["kernels"] == after["kernels"] and found["predicted_ms"] == after["predicted_ms"]
    assert "predicted" in found["summary"].lower()
