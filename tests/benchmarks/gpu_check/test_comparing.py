"""What was predicted beside what ran: figures by hand."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.gpu_check.comparing import kernels, models

PLACE = {"target": "cuda:sm_90", "roof": "H100"}
ROW: dict[str, Any] = {
    "kernel": "rms_norm", "dtype": "float32", "target": "cuda:sm_90", "configuration": "ROWS=1", "launch": 0,
    "registers": 32, "shared_bytes": 16, "spills": 0, "blocks_per_sm": 8,
}  # fmt: skip
LAUNCH = {"registers": 40, "local_bytes": 0, "shared_bytes": 16}
RAN = {"name": "ROWS=1", "median_us": 100.0, "launches": [LAUNCH]}


def tuned(*configurations: dict[str, Any]) -> dict[str, Any]:
    return {"tune rms_norm": {"dtypes": {"float32": {"configurations": list(configurations), "bound_us": 80.0}}}}


def test_resources_and_time_lie_beside_what_was_told() -> None:
    (found,) = kernels(tuned(RAN), PLACE, {"rows": [ROW]})
    assert (found["registers"], found["registers_predicted"]) == ([40], [32])
    assert found["shared_bytes"] == found["shared_bytes_predicted"] == [16]
    assert (found["over_bound"], found["spills"], found["spills_predicted"]) == (1.25, False, False)


@pytest.mark.parametrize(("fits", "ran"), [(8, True), (0, False)])
def test_a_configuration_that_is_refused_is_compared_with_what_was_told_to_fit(fits: int, ran: bool) -> None:
    refused = {"name": "ROWS=1", "refused": "OutOfResources: shared memory"}
    (found,) = kernels(tuned(refused), PLACE, {"rows": [{**ROW, "blocks_per_sm": fits}]})
    assert (found["launches"], found["launches_predicted"]) == (False, ran)
    assert "median_us" not in found


def test_rows_of_other_targets_and_configurations_are_nobodys() -> None:
    rows = [{**ROW, "target": "cuda:sm_80"}, {**ROW, "configuration": "ROWS=2"}]
    assert list(kernels(tuned(RAN), PLACE, {"rows": rows})) == []


PREDICTIONS = {
    "devices": {"H100": {"din": {"before": {"predicted_ms": [0.2, 0.9]}, "after": {"predicted_ms": [0.1, 0.4]}}}}
}
STEP = {
    "contenders": {"torch.compile": {"median_us": 500.0}, "ours": {"median_us": 450.0}, "eager": {"median_us": 1.0}}
}


def test_a_models_time_is_within_both_ends_or_not() -> None:
    found = list(models({"model din float32": STEP}, PLACE, PREDICTIONS))
    assert [(one["contender"], one["median_ms"], one["within"]) for one in found] == [
        ("torch.compile", 0.5, True),
        ("ours", 0.45, False),
    ]


def test_another_device_or_precision_was_not_predicted() -> None:
    assert list(models({"model din float32": STEP}, {**PLACE, "roof": None}, PREDICTIONS)) == []
    assert list(models({"model din bfloat16": STEP}, PLACE, PREDICTIONS)) == []
    assert list(models({"model din float32": {"status": "failed"}}, PLACE, PREDICTIONS)) == []
