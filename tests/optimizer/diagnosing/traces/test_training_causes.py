"""What costs a training twice over: activations computed again, gradients checked one by one, a clock that drops."""

from __future__ import annotations

import pytest

from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.ranking import ranked
from optimizer.result import Finding
from tests.optimizer.diagnosing.traces.building import A100, Building
from tests.optimizer.diagnosing.traces.plants import ENGINE, planted

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
NORM = "void at::native::vectorized_layer_norm_kernel<float, float>(int, float)"


def of(rank: RankTrace, rule: str) -> Finding | None:
    return next((finding for finding in ranked([rank]).findings if finding.rule == rule), None)


# ---- recomputation ---------------------------------------------------------------------------------------------------


def backward(*within: str, node: str = "MulBackward0", reserved: int | None = None) -> Building:
    """Ten products of 100 us in forward; then a node of backward with these operations, each a product of 100 us."""
    job = Building(device=A100)
    for at in range(10):
        job.op("aten::linear", 1_000 + 100 * at - 21, 4)
        job.kernel(GEMM, 1_000 + 100 * at, 100)
    began = 2_000
    job.op(f"{ENGINE}: {node}", began - 30, 100 * len(within))
    job.op(node, began - 29, 100 * len(within) - 2)
    for at, name in enumerate(within):
        job.op(name, began + 100 * at - 21, 4)
        job.op("aten::mm", began + 100 * at - 20.5, 3)
        job.kernel(GEMM, began + 100 * at, 100)
    if reserved is not None:
        told = {"Device Type": 1, "Device Id": 0, "Total Allocated": reserved, "Total Reserved": reserved}
        job.events.append({"ph": "i", "name": "[memory]", "ts": 1, "args": told})
    return job


def test_forward_operations_within_backward_are_computed_again() -> None:
    rank = backward("aten::linear", "aten::gelu", "aten::mm").read()
    assert rank.recomputed_ms == {"gemm": pytest.approx(0.2)}
    assert rank.recomputed_calls == {"aten::linear": 1, "aten::gelu": 1}


def test_what_gradients_are_made_of_is_not_computed_again() -> None:
    rank = backward("aten::mm", "aten::mm", "aten::native_layer_norm_backward").read()
    assert (rank.recomputed_ms, of(rank, "recomputation")) == ({}, None)


def test_forward_itself_is_not_computed_again() -> None:
    assert backward().read().recomputed_ms == {}


def test_what_is_computed_again_is_costed_and_without_memory_in_the_trace_may_give_nothing() -> None:
    finding = of(backward("aten::linear", "aten::linear").read(), "recomputation")
    assert finding is not None and finding.gain is not None
    # 200 of 1,200 us
    assert finding.cost_share == pytest.approx(1 / 6, abs=0.001)
    assert (finding.gain.low, finding.gain.high) == (1.0, pytest.approx(1.2, abs=0.001))
    assert "does not tell" in finding.gain.model


@pytest.mark.parametrize(("reserved_gb", "low"), [(40, 1 / (1 - 1 / 12)), (64, 1 / (1 - 1 / 12)), (65, None)])
def test_memory_to_spare_makes_a_gain_and_none_to_spare_no_finding(reserved_gb: int, low: float | None) -> None:
    # the GPU has 80 GB
    finding = of(backward("aten::linear", "aten::linear", reserved=reserved_gb * 10**9).read(), "recomputation")
    assert (finding.gain.low if finding and finding.gain else None) == (low and pytest.approx(low, abs=0.001))


# ---- anomaly mode ----------------------------------------------------------------------------------------------------


def checked(nodes: int, checks: int) -> RankTrace:
    job = Building(device=A100)
    for at in range(nodes):
        start = 1_000 + 100 * at
        job.op(f"{ENGINE}: MmBackward0", start - 30, 60)
        job.op(f"{ENGINE}: torch::autograd::AccumulateGrad", start + 31, 2)
        job.kernel(GEMM, start, 20)
        if at < checks:
            job.op("aten::isnan", start + 1, 2)
            job.call("cudaStreamSynchronize", start + 5, 16)
    return job.read()


@pytest.mark.parametrize(("nodes", "checks", "found"), [(20, 20, True), (20, 10, True), (20, 9, False), (9, 9, False)])
def test_a_check_of_every_other_node_is_anomaly_mode_and_of_fewer_is_not(nodes: int, checks: int, found: bool) -> None:
    assert (of(checked(nodes, checks), "anomaly_mode") is not None) == found


def test_it_costs_the_idle_time_after_the_waits_of_its_checks() -> None:
    finding = of(checked(20, 20), "anomaly_mode")
    assert finding is not None
    # 19 gaps of 80 us after a wait, less the 22 us from the next launch on
    assert finding.cost_ms == pytest.approx(19 * 0.060, abs=0.01)
    assert finding.evidence["checks_per_step"] == 20.0


# ---- the clock -------------------------------------------------------------------------------------------------------


def steps(*us: float, kernel: str = GEMM, others_us: float = 50.0) -> RankTrace:
    """A step for each: four products of so long, and a norm that never changes."""
    job, now = Building(device=A100), 1_000.0
    for number, each in enumerate(us, 1):
        began = now
        for _ in range(4):
            job.kernel(kernel, now, each, ahead=900)
            now += each
        job.kernel(NORM, now, others_us, ahead=900)
        now += others_us
        job.step(number, began, now - began)
    return job.read()


def test_the_pace_of_a_step_is_its_products_time_over_a_fast_steps() -> None:
    # the second fastest of five ends the fastest quarter
    assert steps(100, 100, 120, 150, 80).paces == [1.0, 1.0, 1.2, 1.5, 0.8]
    assert steps(100, 100, kernel=NORM).paces == [], "a norm follows the memory, not the clock"
    assert steps(100).paces == []


@pytest.mark.parametrize(
    ("us", "found"),
    [
        ((100, 100, 100, 100), False),
        ((100, 100, 120, 120), True),
        ((100, 100, 109, 109), False),
        ((100, 130, 100, 130), False),  # not two on end
        ((100, 100, 100, 180), False),
        ((100, 120, 120), False),  # three steps tell too little
        ((100, 100, 100, 100, 130, 130, 130, 130), True),
    ],
)
def test_two_slow_steps_on_end_are_a_drop(us: tuple[float, ...], found: bool) -> None:
    assert (of(steps(*us), "clock_drop") is not None) == found


def test_a_drop_costs_what_the_products_take_beyond_the_fast_steps() -> None:
    rank = steps(100, 100, 150, 150)
    finding = of(rank, "clock_drop")
    assert finding is not None
    # 2 x 4 products of 50 us more
    assert finding.cost_ms == pytest.approx(0.4, abs=0.001)
    assert finding.evidence["time_over_fastest_quarter"] == [1.0, 1.0, 1.5, 1.5]
    assert finding.title == "In 2 of 4 steps all products are up to 50% slower"


def test_one_kernel_that_slows_down_among_others_is_no_drop() -> None:
    job, now = Building(device=A100), 1_000.0
    for number in range(6):
        began = now
        for name, us in ((GEMM, 100 + 40 * (number > 2)), (GEMM.replace("128x128", "64x64"), 100.0)):
            job.kernel(name, now, us)
            now += us
        job.step(number, began, now - began)
    assert of(job.read(), "clock_drop") is None


def test_kernels_that_are_not_in_every_step_are_left_out() -> None:
    job, now = Building(device=A100), 1_000.0
    for number in range(4):
        began = now
        job.kernel(GEMM, now, 100)
        now += 100
        if number == 2:
            job.kernel(GEMM.replace("128x128", "64x64"), now, 900)
            now += 900
        job.step(number, began, now - began)
    assert job.read().paces == [1.0, 1.0, 1.0, 1.0]


def test_each_says_its_threshold_with_its_source_and_how_to_mend_it() -> None:
    for rule in ("recomputation", "anomaly_mode", "clock_drop", "padding_waste"):
        finding = of(planted(rule, 2_500, 1)[0], rule)
        assert finding is not None and finding.threshold.endswith(")") and len(finding.steps) >= 2


def test_the_collector_itself_is_read_where_it_was_recorded() -> None:
    job = Building()
    job.kernel("k", 100, 10)
    job.add("python_function", "<built-in function collect>", 200, 50)
    job.add("python_function", "Python GC", 210, 30)  # within what called it
    job.add("python_function", "Python GC", 400, 20)
    job.kernel("k", 1_000, 10)
    assert job.read().collecting_ms == pytest.approx(0.07)
