"""Real traces against facts that were worked out by hand from the same files: counts exactly, shares within a point.

The figures are those of the list beside the traces. Shares there are in percent, rounded to one place.
"""

from __future__ import annotations

import pytest

from optimizer.diagnosing.base import RULES
from optimizer.diagnosing.traces.facts import facts
from optimizer.diagnosing.traces.ranking import ranked
from optimizer.diagnosing.traces.stragglers import waits
from optimizer.diagnosing.traces.trace_rule import GpuRule
from optimizer.errors import FuseworksError
from tests.optimizer.diagnosing.traces.real import trace

ALL = [
    "dlrm_a100_rank0_of_16", "torchrec_a100_control", "torchrec_v100_test", "ads_rank0_of_128", "ads_rank1_of_128",
    "resnet_ddp_a100", "resnet_ddp_v100_ns", "resnet50_workers0", "resnet50_workers4",
]  # fmt: skip
# steps, span ms, busy %, kernels, under 10 us %, exposed % of communication, exposed % of the span
TABLE = {
    "dlrm_a100_rank0_of_16": (5, 1231.5, 35.6, 6080, 87.6, 98.6, 15.0),
    "torchrec_a100_control": (6, 464.6, 83.6, 8568, 52.1, 53.8, 18.9),
    "torchrec_v100_test": (6, 745.2, 96.3, 9876, 45.2, 29.2, 9.8),
    "ads_rank0_of_128": (2, 1222.8, 44.8, 1154, 32.8, 85.1, 27.6),
    "ads_rank1_of_128": (2, 1231.2, 47.1, 1104, 35.1, 80.1, 24.7),
    "resnet_ddp_a100": (3, 660.6, 23.8, 2700, 42.9, 84.4, 6.0),
    "resnet_ddp_v100_ns": (5, 480.0, 98.4, 4350, 38.9, 0.0, 0.0),
    "resnet50_workers0": (6, 996.5, 60.6, 8772, 62.3, 0.0, 0.0),
    "resnet50_workers4": (6, 801.5, 76.7, 8868, 62.6, 0.0, 0.0),
}
POINT = 0.01


def percent(value: float) -> object:
    return pytest.approx(value / 100, abs=POINT)


@pytest.mark.parametrize("name", ALL)
def test_the_timelines_facts_are_found(name: str) -> None:
    steps, span_ms, busy, kernels, short, exposed, of_span = TABLE[name]
    found = facts([trace(name)])
    assert (found["steps"], found["kernels"], found["ranks"], found["devices"]) == (steps, kernels, 1, 1)
    assert found["span_ms"] == pytest.approx(span_ms, abs=0.06)  # rounded to 0.1 ms in the list
    assert found["gpu_busy_share"] == percent(busy)
    assert found["kernels_under_10us_share"] == percent(short)
    assert found["comm_exposed_share"] == percent(exposed)
    assert found["comm_span_share"] == percent(of_span)


@pytest.mark.parametrize("name", ALL)
def test_the_causes_of_idle_time_add_up_to_it(name: str) -> None:
    rank = trace(name)
    assert rank.idle.total_ms() == pytest.approx(rank.span_ms - rank.busy_ms, rel=1e-6)


def test_dlrm_reads_values_back_and_copies_from_pageable_memory() -> None:
    found = facts([trace("dlrm_a100_rank0_of_16")])
    assert (found["ops_per_step"]["aten::item"], found["ops_per_step"]["aten::copy_"]) == (189, 279)
    assert found["comm_kernel_share"] == percent(47.4)
    assert (found["memcpy_pageable"], found["memcpy_to_pageable"]) == (45, 30)
    assert found["world_size"] == 16


def test_torchrec_on_an_a100_has_an_unfused_adagrad_and_embeddings() -> None:
    found = facts([trace("torchrec_a100_control")])
    assert (found["ops_per_step"]["aten::copy_"], found["ops_per_step"]["aten::add_"]) == (74, 439)
    assert found["embedding_share"] == percent(13.4)
    assert found["comm_kernel_share"] == percent(36.6)
    assert found["optimizer_fused"] is False


def test_torchrec_on_a_v100_copies_much_and_uses_no_tensor_cores() -> None:
    found = facts([trace("torchrec_v100_test")])
    assert found["ops_per_step"]["aten::copy_"] == 872
    assert found["memcpy_by_kind"]["dtod"] == 4645
    assert found["fp32_simt_share"] == percent(24.8)
    assert found["tensor_core_share"] == 0


def test_two_ranks_of_one_job_show_who_waits() -> None:
    ranks = [trace("ads_rank0_of_128"), trace("ads_rank1_of_128")]
    assert facts(ranks[:1])["comm_kernel_share"] == percent(65.3)
    assert facts(ranks[1:])["comm_kernel_share"] == percent(58.2)
    assert facts(ranks[:1])["memcpy_pageable"] == 16
    both = facts(ranks)
    assert (both["ranks"], both["devices"], both["kernels"]) == (2, 2, 1154 + 1104)
    rows = waits(ranks)
    assert [row.rank for row in rows] == [0, 1]
    # five collectives begin or end together on both (to 0.4 ms); of four of them rank 0's are longer, by
    # 4.85 + 3.36 + 22.32 + 1.49 ms
    assert (rows[0].collectives, rows[1].last_to_arrive) == (5, 4)
    assert rows[0].waited_ms == pytest.approx(32.0, abs=0.1)


def test_resnet_on_an_a100_converts_layouts() -> None:
    found = facts([trace("resnet_ddp_a100")])
    assert found["layout_share"] == percent(11.3)
    assert found["ops_per_step"]["aten::copy_"] == 320
    assert found["gpu_idle_share"] == percent(76.2)


def test_stamps_in_nanoseconds_are_read_and_plain_float32_is_seen() -> None:
    found = facts([trace("resnet_ddp_v100_ns")])
    assert found["fp32_simt_share"] == percent(49.2)
    assert found["tensor_core_share"] == 0


def test_old_field_names_are_read_and_the_data_loader_is_seen_before_and_after() -> None:
    before, after = facts([trace("resnet50_workers0")]), facts([trace("resnet50_workers4")])
    assert before["dataloader_share"] == percent(39.6)
    assert after["dataloader_share"] == percent(1.0)
    assert before["ops_per_step"]["aten::add_"] == 499


def test_the_gain_that_was_predicted_for_the_data_loader_covers_what_workers_gave() -> None:
    """The same training before and after: 996.5 ms with no worker, 801.5 ms with four."""
    (finding,) = [f for f in ranked([trace("resnet50_workers0")]).findings if f.rule == "data_loading"]
    assert finding.gain is not None
    assert finding.gain.low <= 996.5 / 801.5 <= finding.gain.high
    assert finding.gain.high / finding.gain.low <= 1.5
    assert "data_loading" not in {f.rule for f in ranked([trace("resnet50_workers4")]).findings}


@pytest.mark.parametrize("name", ["cpu_only", "rank_missing"])
def test_without_a_gpu_nothing_is_said_of_one(name: str) -> None:
    rank = trace(name)
    found = facts([rank])
    assert (found["kernels"], found["devices"], found["gpu_busy_share"]) == (0, 0, None)
    assert not [f.rule for f in ranked([rank]).findings if isinstance(RULES.get(f.rule), GpuRule)]


def test_a_trace_without_rank_is_one_rank() -> None:
    rank = trace("rank_missing")
    assert (rank.rank, facts([rank])["ranks"]) == (None, 1)


def test_an_execution_trace_is_refused_by_name() -> None:
    with pytest.raises(FuseworksError) as caught:
        trace("not_a_profile_execution_trace")
    assert caught.value.id == "diagnosing:user:foreign"
    assert "PyTorch execution trace" in caught.value.message
    assert "torch.profiler.profile" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("dlrm_a100_rank0_of_16", {"launch_bound", "host_synchronization", "low_gpu_use", "exposed_communication"}),
        ("torchrec_a100_control", {"unfused_optimizer", "exposed_communication", "elementwise_chains", "cat_storms"}),
        ("torchrec_v100_test", {"no_tensor_cores", "layout_conversions"}),
        ("resnet_ddp_a100", {"low_gpu_use", "layout_conversions", "exposed_communication"}),
        ("resnet_ddp_v100_ns", {"no_tensor_cores"}),
        ("resnet50_workers0", {"data_loading", "unfused_optimizer", "no_tensor_cores", "pageable_copies"}),
    ],
)
def test_known_causes_are_among_the_findings(name: str, rules: set[str]) -> None:
    assert rules <= {finding.rule for finding in ranked([trace(name)]).findings}
