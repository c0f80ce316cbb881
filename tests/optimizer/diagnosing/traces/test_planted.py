"""Planted causes are found and ranked first; healthy trainings have none."""

from __future__ import annotations

import pytest

from optimizer.diagnosing.base import RULES
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.ranking import Ranked, ranked
from optimizer.diagnosing.traces.trace_rule import TraceRule
from tests.optimizer.diagnosing.traces.building import A100, V100, Building
from tests.optimizer.diagnosing.traces.plants import CASES, PLANTS, healthy, planted
from tests.optimizer.diagnosing.traces.training import GEMM, NORM, Training

TWINS = range(40)
# planted below by other means: several ranks, another GPU, the allocator's counters
ELSEWHERE = {"straggler", "slow_link", "no_tensor_cores", "memory_near_limit", "data_parallel"}


def first(found: Ranked) -> str | None:
    return found.findings[0].rule if found.findings else None


def names(found: Ranked) -> set[str]:
    return {finding.rule for finding in found.findings}


def test_every_rule_on_traces_has_a_plant() -> None:
    assert {rule.name for rule in RULES if isinstance(rule, TraceRule)} == {*PLANTS, *ELSEWHERE}


@pytest.mark.parametrize("rule", PLANTS)
def test_a_planted_cause_is_found(rule: str) -> None:
    for case in [case for case in CASES if case[0] == rule]:
        assert rule in names(ranked(planted(*case))), case


def test_planted_causes_are_ranked_first() -> None:
    assert len(CASES) > 100
    amiss = [(case, first(found)) for case in CASES if first(found := ranked(planted(*case))) != case[0]]
    assert len(amiss) <= 0.1 * len(CASES), amiss


def test_healthy_trainings_have_no_findings() -> None:
    alarms = {seed: names(found) for seed in TWINS if (found := ranked(healthy(seed))).findings}
    assert len(alarms) <= 0.03 * len(TWINS), alarms
    assert not any(ranked(healthy(seed)).worth_doing for seed in TWINS)


@pytest.mark.parametrize("rule", PLANTS)
def test_a_finding_says_what_it_costs_and_what_mends_it(rule: str) -> None:
    case = next(case for case in reversed(CASES) if case[0] == rule)
    finding = next(f for f in ranked(planted(*case)).findings if f.rule == rule)
    assert finding.threshold.endswith(")")  # the source stands in brackets
    assert finding.steps and finding.evidence and finding.remedy
    if finding.gain is not None:
        assert 1 <= finding.gain.low <= finding.gain.high
        assert finding.gain.model and finding.cost_share is not None


def test_a_cause_that_takes_more_is_more_severe() -> None:
    found = [
        next(f for f in ranked(planted("exposed_communication", us, 1)).findings if f.rule == "exposed_communication")
        for us in (300, 700, 3000)
    ]
    assert [finding.severity for finding in found] == ["low", "medium", "high"]
    assert found[2].cost_share == pytest.approx(3000 / 13_000, abs=0.03)


def test_products_in_float32_on_a_gpu_with_tensor_cores_are_found_and_half_precision_is_not() -> None:
    def rules(gemm: str, device: dict[str, object]) -> set[str]:
        job = Building(device=device)
        for at in range(50):
            job.kernel(gemm, 100 + 100 * at, 90)
            job.kernel(NORM, 190 + 100 * at, 10)
        return names(ranked([job.read()]))

    assert "no_tensor_cores" in rules("volta_sgemm_128x64_nn", V100)
    assert "no_tensor_cores" in rules("ampere_sgemm_128x64_nn", A100)
    assert "no_tensor_cores" not in rules("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", V100)
    assert "no_tensor_cores" not in rules("pascal_sgemm_128x64_nn", {**V100, "computeMajor": 6, "computeMinor": 1})
    assert "no_tensor_cores" not in rules("dgemm_128x64", A100)


def test_which_gpu_it_was_is_told_by_its_kernels_where_no_header_tells() -> None:
    job = Building()
    for at in range(20):
        job.kernel("volta_sgemm_128x64_nn", 100 * at, 99)
    (finding,) = [f for f in ranked([job.read()]).findings if f.rule == "no_tensor_cores"]
    assert finding.evidence["compute_capability"] == "7.0"


def memory(allocated: int, reserved: int) -> RankTrace:
    job = Training().run()
    told = {"Device Type": 1, "Device Id": 0, "Total Allocated": allocated, "Total Reserved": reserved}
    job.events.append({"ph": "i", "name": "[memory]", "ts": 1, "args": told})
    job.events.append({"ph": "i", "name": "[memory]", "ts": 2, "args": {**told, "Total Allocated": allocated // 2}})
    return job.read()


def test_memory_near_its_limit_is_found() -> None:
    # the GPU of the trace has 80 GB
    (finding,) = ranked([memory(70_000_000_000, 73_000_000_000)]).findings
    assert (finding.rule, finding.severity, finding.gain) == ("memory_near_limit", "medium", None)
    assert finding.evidence["peak_reserved_bytes"] == 73_000_000_000
    assert ranked([memory(70_000_000_000, 71_000_000_000)]).findings == []


def test_memory_that_is_held_and_not_given_out_is_found() -> None:
    (finding,) = ranked([memory(40_000_000_000, 60_000_000_000)]).findings
    assert (finding.rule, finding.evidence["unused_share_at_peak"]) == ("memory_fragmentation", 0.3333)
    assert ranked([memory(50_000_000_000, 60_000_000_000)]).findings == []


def test_one_process_with_two_gpus_is_found() -> None:
    def both(training: Training) -> None:
        training.gap(800)
        training.job.kernel(GEMM, training.now - 700, 100, device=1, stream=7)

    found = ranked([Training().run(both).read()])
    assert first(found) == "data_parallel"
    assert found.findings[0].evidence["devices"] == [0, 1]


def test_gpus_that_talk_over_a_backend_for_cpus_are_found() -> None:
    training = Training()
    training.job.header["distributedInfo"]["backend"] = "gloo"
    (finding,) = ranked([training.run().read()]).findings
    assert (finding.rule, finding.severity) == ("data_parallel", "medium")


def test_sizes_that_do_not_fit_are_named_by_the_shapes_that_were_recorded() -> None:
    def odd(training: Training) -> None:
        dims = {"Input Dims": [[4096, 1001], [1001, 4096]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}
        for _ in range(20):
            training.work(GEMM, 100, op="aten::mm", inputs=dims)

    (finding,) = ranked([Training().run(odd).read()]).findings
    assert finding.rule == "misaligned_gemm"
    assert finding.evidence["shapes"] == {"[4096, 1001] x [1001, 4096] c10::BFloat16": 80}
