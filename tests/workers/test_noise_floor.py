"""The noise floor of a worker is what a finished run measured, and nothing else."""

from __future__ import annotations

from pathlib import Path

from optimizer.result import Result
from tests.optimizer.reporting.sample import comparison, result
from workers import noise_floor


def conditions() -> dict[str, object]:
    return {"fixed": {}, "observed": {"load_average_1min": 0.5}, "fingerprint": "f" * 64}


def test_it_is_the_floor_of_the_first_comparison_with_its_conditions() -> None:
    made = result(conditions=conditions(), comparisons=[comparison("baseline", "winner", 1.6, 1.5, 1.7, "faster")])
    assert noise_floor.of(made) == {
        "noise_floor": 0.012,
        "noise_floor_conditions": {"fingerprint": "f" * 64, "pairs": 12, "observed": {"load_average_1min": 0.5}},
    }


def test_a_run_that_measured_nothing_has_none() -> None:
    assert noise_floor.of(Result(purpose="inspect", status="succeeded")) is None


def test_too_few_pairs_for_a_verdict_tell_none() -> None:
    told = comparison("baseline", "winner", 1.6, 0.1, 17, "cannot_tell")
    few = {**told, "pairs": 3, "noise_floor": 167.7, "reason": "only 3 of the 6 pairs"}
    assert noise_floor.of(result(conditions=conditions(), comparisons=[few])) is None


def test_it_is_kept_over_a_restart_for_each_worker_of_a_host(tmp_path: Path) -> None:
    made = result(conditions=conditions(), comparisons=[comparison("baseline", "winner", 1.6, 1.5, 1.7, "faster")])
    noise_floor.remember(tmp_path, "left", made)
    assert noise_floor.recall(tmp_path, "left") == noise_floor.of(made)
    assert noise_floor.recall(tmp_path, "right") == {}


def test_a_run_without_one_leaves_the_last_one(tmp_path: Path) -> None:
    made = result(conditions=conditions(), comparisons=[comparison("baseline", "winner", 1.6, 1.5, 1.7, "faster")])
    noise_floor.remember(tmp_path, "left", made)
    noise_floor.remember(tmp_path, "left", Result(purpose="inspect", status="succeeded"))
    assert noise_floor.recall(tmp_path, "left")["noise_floor"] == 0.012


def test_a_file_that_cannot_be_read_is_no_floor(tmp_path: Path) -> None:
    made = result(conditions=conditions(), comparisons=[comparison("baseline", "winner", 1.6, 1.5, 1.7, "faster")])
    noise_floor.remember(tmp_path, "left", made)
    (path,) = tmp_path.iterdir()
    path.write_text("{")
    assert noise_floor.recall(tmp_path, "left") == {}
