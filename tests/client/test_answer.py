"""The final answer on the terminal."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from fuseworks_client import words
from fuseworks_client.answer import show
from fuseworks_client.commands.compare import _figures
from tests.optimizer.reporting.sample import NUMERICS, document


def shown(**changes: Any) -> str:
    console = Console(file=io.StringIO(), width=250, color_system=None)
    show(document(**changes), None, console)
    return " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]


def test_notes_of_the_run_and_of_its_measurements_are_shown() -> None:
    text = shown()
    assert "Notes - max_latency_ms of the workload is not heeded yet - stopped after 7 of 18 sets" in text
    assert "Notes" not in shown(notes=[], conditions=None)


def test_a_run_that_failed_shows_its_notes_too() -> None:
    assert "Notes - it was cut" in shown(status="failed", notes=["it was cut"], conditions=None)


def test_screened_times_are_marked_and_judged_ones_are_not() -> None:
    text = shown()
    assert "7.40 ms (screening)" in text
    assert "5.06 ms (screening)" not in text and "5.06 ms" in text


def listed(*candidates: dict[str, Any], **changes: Any) -> str:
    rows = [{"status": "passed", "candidate": {"steps": [], **one.pop("candidate")}, **one} for one in candidates]
    return shown(candidates=rows, **changes)


def test_the_original_is_no_peer_and_neither_side_of_a_comparison_is() -> None:
    rows = [
        {"candidate": {"name": "openvino", "peer": True}},
        {"candidate": {"name": "baseline", "peer": True}},
        {"candidate": {"name": "baseline (default settings)", "peer": True}},
    ]
    text = listed(*[{**row} for row in rows])
    assert "openvino (peer)" in text and "baseline (peer)" not in text and "settings) (peer)" not in text
    assert "(peer)" not in listed(*[{**row} for row in rows], purpose="compare")


def test_only_where_something_won_a_star_is_explained() -> None:
    assert "* the winner, judged in fresh processes." in shown()
    assert "* the best candidate, judged in fresh processes." in shown(verdict="cannot_tell")
    compared = shown(purpose="compare", winner=None)
    assert "judged in fresh processes." not in compared and "Speedups here are screenings" not in compared


def test_engines_that_the_user_left_out_are_named_once_and_are_no_rows() -> None:
    reason = "the policy does not name this backend"
    left_out = {"candidate": {"name": "inductor", "peer": True}, "status": "not_tried", "reason": reason}
    text = listed({"candidate": {"name": "openvino", "peer": True}}, left_out)
    assert "Left out, as you asked (--backend): inductor." in text
    assert reason not in text and "inductor (peer)" not in text
    assert "Left out" not in shown()


def disturbed(share: float) -> dict[str, Any]:
    observed = {
        "disturbed_shares": {"baseline": 0.02, "winner": share},
        "noise_floor": 0.154,
        "load_averages": [3, 7.25],
    }
    return {"verdict": "cannot_tell", "conditions": {"fixed": {"cores": 2}, "observed": observed, "fingerprint": "f"}}


def test_a_run_that_cannot_tell_says_what_else_the_cores_were_busy_with() -> None:
    told = "up to 62% of a contender's bursts had to wait for a core, the noise floor is 15.4%, "
    told += "the load was up to 7.2 on 2 cores. Measure again on a quiet machine."
    assert f"disturbance The cores were busy with other work: {told}" in shown(**disturbed(0.62))
    quiet = shown(**disturbed(0.04))
    assert "disturbance Up to 4% of a contender's bursts" in quiet and "busy" not in quiet
    assert "disturbance" not in shown(**{**disturbed(0.62), "verdict": "faster"})
    assert "disturbance" not in shown(verdict="cannot_tell", conditions=None)


def test_what_is_offered_is_told_whatever_the_winners_figures_are() -> None:
    assert "offered a recipe and a package" in shown()
    assert "offered a recipe best peer" in shown(artifacts=[])
    assert "offered nothing: what was measured is told" in shown(offered=False, verdict="same")
    assert "offered" not in shown(purpose="compare")


def test_a_row_of_the_ablation_shows_the_floor_that_it_was_held_against() -> None:
    assert "no difference beyond the noise, noise floor 3.1 %" in shown()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "error 4.1e-07 of the spread, 1.1e-05 allowed"),
        ({"yardstick": "size"}, "error 4.1e-07 of its size (it is constant), 1.1e-05 allowed"),
        ({"yardstick": "unit"}, "error 4.1e-07 (it is zero everywhere), 1.1e-05 allowed"),
        (
            {"yardstick": "places", "error": 0.002, "allowed": 0.0},
            "0.20% of its integers differ beyond ties, 0.00% allowed",
        ),
        ({"inputs": "captured"}, "error 4.1e-07 of the spread, 1.1e-05 allowed, on the captured samples"),
        (
            {"worst_column": {"column": 1, "error": 2e-6, "allowed": 1e-5}},
            "error 4.1e-07 of the spread, 1.1e-05 allowed; worst column 1: 2.0e-06, 1.0e-05 allowed",
        ),
    ],
)
def test_numerics_are_told_in_the_measure_that_they_were_judged_by(changes: dict[str, Any], text: str) -> None:
    assert words.numerics({**NUMERICS, **changes}) == text


LAYER: dict[str, Any] = {
    "node": "linear_1",
    "source": "din.py:41",
    "inputs": 512,
    "outputs": 64,
    "rows": 256,
    "precision": "int8",
    "tried": "int8",
    "error": 2e-3,
    "share_of_allowed": 0.2,
    "float32_ms": 1.0,
    "tried_ms": 0.25,
    "reason": "it saves three quarters",
}
KEPT = {**LAYER, "outputs": 1, "precision": "float32", "source": None, "float32_ms": 0.5, "reason": "it gains nothing"}
PLAN = {"candidates": ["aot_inductor + int8"], "layers": [LAYER, KEPT], "share_of_allowed": 0.25, "samples": 768}


def test_each_layer_is_told_with_its_precision_and_why() -> None:
    text = shown(layer_plans=[PLAN])
    assert "1 of 2 linear layers go to int8 in aot_inductor + int8: together they take 25% of the error" in text
    assert "int8 512 to 64 at din.py:41: it saves three quarters" in text
    assert "float32 512 to 1 at linear_1: it gains nothing" in text
    none = {**PLAN, "candidates": [], "layers": [KEPT], "share_of_allowed": 0.0}
    assert "0 of 1 linear layers go to int8 float32" in shown(layer_plans=[none])
    assert "Precision by layer" not in shown()
    scores = {**KEPT, "operation": "matmul", "inputs": 64, "outputs": None, "tried": "bfloat16"}
    mixed = shown(layer_plans=[{**PLAN, "layers": [{**LAYER, "precision": "bfloat16", "tried": "bfloat16"}, scores]}])
    assert "1 of 2 layers go to bfloat16" in mixed
    assert "float32 matmul 64 to any at linear_1" in mixed


def test_the_task_metric_of_the_winner_is_told() -> None:
    metric = {"metric": "auc", "label": "ctr", "output": "p", "samples": 40960, "baseline": 0.7813, "candidate": 0.7812}
    metric |= {"drop": 1e-4, "max_drop": 5e-4, "holds": True, "passed": True}
    found = document()
    for one in found["candidates"]:
        if one["candidate"]["name"] == found["winner"]:
            one["verification"]["task_metric"] = metric
    told = "task metric auc 0.78120, original 0.78130: worse by 1.0e-04, 5.0e-04 allowed (40,960 labels)"
    assert told in shown(candidates=found["candidates"])
    assert "task metric" not in shown()


LIMITS: list[dict[str, Any]] = [
    {"name": "latency_ms", "limit": 6.0, "winner": 7.25, "winner_kept": False, "baseline": 5.5, "baseline_kept": True},
    {"name": "peak_memory_bytes", "limit": 3 << 20, "winner": 1.5 * (1 << 20), "winner_kept": True, "baseline": None},
    {"name": "max_error", "limit": 1e-5, "winner": 2e-6, "winner_kept": True, "baseline": 2e-5, "baseline_kept": False},
]


def test_each_limit_of_the_workload_is_told_with_who_keeps_it() -> None:
    text = shown(limits=LIMITS, precisions=["float32", "bfloat16"])
    assert "limit p99 of a call 6.00 ms: winner 7.25 ms, not kept; baseline 5.50 ms, kept" in text
    assert "limit peak memory 3.0 MiB: winner 1.5 MiB, kept; baseline not measured" in text
    assert "limit error 1.0e-05: winner 2.0e-06, kept; baseline 2.0e-05, not kept" in text
    assert "searched in float32, bfloat16" in text
    assert "after 7.25 ms, not kept; before 5.50 ms, kept" in shown(limits=LIMITS, purpose="compare")
    assert "limit p99" not in shown()


AFTER = {
    "operations": [
        {"op": "cpp_fused_relu_2", "calls": 1, "self_ms": 0.5, "share": 0.25},
        {"op": "_linear_pointwise", "calls": 1, "self_ms": 1.5, "share": 0.75},
    ],
    "total_ms": 2.0,
    "candidate": "aot_inductor + rewrites",
}


def test_before_and_after_show_where_most_of_the_time_goes() -> None:
    text = shown(profile_after=AFTER)
    assert "Where the time goes before 8.00 ms in operations: linear 55%, embedding 14%" in text
    assert "after 2.00 ms in operations: _linear_pointwise 75%, cpp_fused_relu_2 25%" in text
    assert "at another moment and under a profiler: not the judged times" in text


@pytest.mark.parametrize(("times", "marked"), [(1.6, True), (1.4, False)])
def test_a_profile_of_a_busy_moment_is_marked(times: float, marked: bool) -> None:
    text = shown(profile_after={**AFTER, "unprofiled_ms": times * document()["best_ms"]})
    assert ("taken under disturbance: read the shares, not the times" in text) is marked


def test_the_speedup_of_a_run_that_cannot_tell_is_no_bare_figure_beside_another_run() -> None:
    def row(verdict: str) -> dict[str, Any]:
        headline = {"baseline_ms": 2.0, "best_ms": 1.0, "speedup": 2.0, "speedup_ci": None, "verdict": verdict}
        return {"run": {"id": verdict, "model_name": "DIN", "version_number": 1}, "headline": headline}

    console = Console(file=io.StringIO(), width=250, color_system=None)
    console.print(_figures({"runs": [row("faster"), row("cannot_tell")]}))
    assert console.file.getvalue().count("2.00x unproven") == 1  # type: ignore[attr-defined]


def test_a_winner_without_a_profile_shows_the_original_alone() -> None:
    assert "after 2.00 ms" not in shown() and "Where the time goes before 8.00 ms" in shown()
    assert "Where the time goes" not in shown(profile=None)
