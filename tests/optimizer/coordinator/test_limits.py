"""What a workload limits: the precisions that are searched, the memory of a candidate, and what is told of the rest."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from optimizer.coordinator.answer import Answer
from optimizer.coordinator.limits import check_memory, in_words, limit_checks, settle_precisions
from optimizer.coordinator.prepare import _not_heeded
from optimizer.errors import FuseworksError
from optimizer.result import OutputNumerics, Performance
from optimizer.spec import Workload
from tests.optimizer.coordinator.support import context

MIB = 1 << 20


def workload(**changes: Any) -> Workload:
    return Workload.model_validate({"inputs": [{"name": "x", "dtype": "float32", "shape": [4]}], **changes})


def performance(p99_ms: float, peak_bytes: int | None) -> Performance:
    return Performance(
        median_ms=1.0, mean_ms=1.0, p90_ms=1.0, p99_ms=p99_ms, calls=9, processes=1, throughput_per_s=1.0,
        peak_memory_bytes=peak_bytes,
    )  # fmt: skip


def numerics(error: float, baseline_error: float, yardstick: Any = "spread") -> OutputNumerics:
    return OutputNumerics(
        output="y", dtype="float32", error=error, baseline_error=baseline_error, allowed=1.0, max_abs_error=0.0,
        samples=64, passed=True, yardstick=yardstick,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "given", "searched"),
    [
        (["float32"], None, ["float32"]),
        (["float32", "bfloat16"], None, ["float32", "bfloat16"]),  # a workload that says nothing limits nothing
        (["float32", "bfloat16"], ["float32"], ["float32"]),
        (["float32", "bfloat16"], ["bfloat16"], ["bfloat16"]),
        (["float32"], ["bfloat16", "float32"], ["float32"]),
    ],
)
def test_what_policy_and_workload_both_allow_is_searched(
    tmp_path: Any, policy: list[str], given: list[str] | None, searched: list[str]
) -> None:
    run, answer = context(tmp_path, precisions=policy), Answer()
    settle_precisions(run, answer, workload(precisions=given))
    assert run.spec.policy.precisions == answer.precisions == searched
    left_out = [precision for precision in policy if precision not in searched]
    assert answer.notes == [
        f"The policy allows {', '.join(left_out)} and the workload does not: it is not searched." for _ in left_out[:1]
    ]


def test_no_precision_in_common_is_the_users_error_with_a_remedy(tmp_path: Any) -> None:
    with pytest.raises(FuseworksError) as caught:
        settle_precisions(context(tmp_path, precisions=["float32"]), Answer(), workload(precisions=["bfloat16"]))
    error = caught.value
    assert (error.id, error.place) == ("run:user:no-precision", "workload: precisions")
    assert "the policy allows float32, and the workload bfloat16" in error.message
    assert "--precision" in error.remedy


def test_a_workload_that_names_no_precision_at_all_is_not_valid() -> None:
    with pytest.raises(ValueError, match="precisions"):
        workload(precisions=[])


@pytest.mark.parametrize(("limit", "taken"), [(None, 9 * MIB), (8 * MIB, None), (8 * MIB, 8 * MIB)])
def test_memory_within_its_limit_or_not_known_is_no_failure(limit: int | None, taken: int | None) -> None:
    check_memory(workload(limits={"peak_memory_bytes": limit}), "c", taken)


def test_memory_beyond_its_limit_ends_the_candidate_with_both_figures() -> None:
    with pytest.raises(FuseworksError) as caught:
        check_memory(workload(limits={"peak_memory_bytes": 8 * MIB}), "openvino", 8 * MIB + MIB // 2)
    assert caught.value.id == "benchmarking:user:memory-limit"
    assert caught.value.message == "openvino takes 8.5 MiB, and the workload allows 8.0 MiB."


def test_each_limit_is_held_against_the_winner_and_the_baseline() -> None:
    limits = {"latency_ms": 5.0, "peak_memory_bytes": 8 * MIB, "max_error": 1e-5}
    latency, memory, error = limit_checks(
        workload(limits=limits),
        performance(4.0, 9 * MIB),
        performance(6.0, 8 * MIB),
        [numerics(3e-6, 2e-5), numerics(2e-6, 1e-6), numerics(0.5, 0.5, "places")],
    )
    assert (latency.winner, latency.winner_kept, latency.baseline, latency.baseline_kept) == (4.0, True, 6.0, False)
    assert (memory.winner_kept, memory.baseline_kept) == (False, True)
    assert (error.winner, error.winner_kept, error.baseline, error.baseline_kept) == (3e-6, True, 2e-5, False)


def test_what_was_not_measured_is_neither_kept_nor_broken() -> None:
    (memory,) = limit_checks(
        workload(limits={"peak_memory_bytes": 8}), performance(1.0, None), performance(1.0, None), [numerics(0.0, 0.0)]
    )
    assert (memory.winner, memory.winner_kept, memory.baseline_kept) == (None, None, None)
    assert in_words([memory]) == ""


def test_no_limits_mean_no_checks() -> None:
    assert limit_checks(workload(), performance(1.0, 1), performance(1.0, 1), [numerics(0.0, 0.0)]) == []


def test_the_summary_names_only_the_limits_that_the_winner_breaks() -> None:
    checks = limit_checks(
        workload(limits={"latency_ms": 5.0, "peak_memory_bytes": 8}), performance(7.5, 4), performance(1.0, 4), []
    )
    assert in_words(checks) == "; beyond the workload's limit of latency_ms (7.5 of 5)"


def test_limits_and_labels_are_acted_on() -> None:
    labels = {"label": "clicked", "metric": "auc", "max_drop": 0.001}
    assert _not_heeded(workload(limits={"latency_ms": 1.0, "peak_memory_bytes": 1}, labels=labels), "pt2") == []


def test_contracts_are_told_to_be_not_acted_on_in_onnx_graphs_only() -> None:
    promising = workload(contracts=[{"same_over_batch": ["x"]}])
    (told,) = _not_heeded(promising, "onnx")
    assert "contracts (same_over_batch: x) shape the inputs that are drawn, and no more" in told
    assert _not_heeded(promising, "pt2") == []


def test_a_contract_that_names_no_input_is_an_error() -> None:
    with pytest.raises(ValidationError, match="contracts name y, and the inputs are x"):
        workload(contracts=[{"same_over_batch": ["x", "y"]}])
