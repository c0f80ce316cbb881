"""Rows, scores and tables of a suite, on answers of runs that never were; every figure is worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fuseworks_client.suite import report
from fuseworks_client.suite.found import Found
from fuseworks_client.suite.rows import row
from fuseworks_client.suite.runs import Run
from fuseworks_client.suite.scores import agreements, scores
from tests.optimizer.reporting.sample import document

ASKED = {"lane": "fp32", "budget_s": 360.0, "version": "0.2", "target": "cpu", "rivals": "all"}
WINNER = "aot_inductor + rewrites"


def judged(name: str, speedup: float, over: float | None, **more: Any) -> dict[str, Any]:
    interval = {"low": over - 0.1, "high": over + 0.1} if over else None
    return {
        "name": name, "speedup": speedup, "interval": {"low": speedup - 0.1, "high": speedup + 0.1}, "best_ms": 5.0,
        "precision": "float32", "winner_speedup": over, "winner_interval": interval,
        "winner_verdict": "faster" if over else None, "error": 2e-7, "allowed": 1e-5, **more,
    }  # fmt: skip


def candidates(*names: str) -> list[dict[str, Any]]:
    """The sample's own, and more peers that passed."""
    peers = [
        {
            "candidate": {"name": name, "steps": [{"backend": name}], "peer": True, "why": ""},
            "status": "passed",
            "screened_speedup": 1.05,
        }
        for name in names
    ]
    return [*document()["candidates"], *peers]


def run(model: str = "din.py", number: int = 1, wall_s: float = 290.4, code: int = 0, **changes: Any) -> Run:
    """Winner 1.62 over the original, 2.31 as deployed, unless changed."""
    return Run(Found(model, Path(model), "ab" * 32), number, code, wall_s, document(**changes))


def failed(model: str = "din.py", number: int = 1, status: str = "failed") -> Run:
    answer = {"status": status, "problem": {"id": "x:user:y", "message": "No.", "remedy": "Mend it."}}
    return Run(Found(model, Path(model), "ab" * 32), number, 4, 3.2, answer)


def ours(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = row(run(**changes))["ours"]
    return found


# ---- a row ---------------------------------------------------------------------------------------------------------


def test_the_best_peer_of_a_row_is_the_fastest_that_was_judged() -> None:
    peers = [judged("ort", 1.1, 1.47), judged("openvino", 1.25, 1.3)]
    found = row(run(candidates=candidates("ort"), judged_peers=peers))
    assert found["best_peer"]["name"] == "openvino"
    assert found["ours"]["over_best_peer"] == {
        "speedup": 1.3, "low": pytest.approx(1.2), "high": pytest.approx(1.4), "verdict": "faster"
    }  # fmt: skip
    assert [peer["name"] for peer in found["peers"] if peer["judged"]] == ["openvino", "ort"]


def test_where_every_engine_loses_to_the_original_that_is_the_best_peer() -> None:
    found = row(run(judged_peers=[judged("openvino", 0.8, 2.03)]))
    assert found["best_peer"]["name"] == "the original"
    assert found["ours"]["over_best_peer"]["speedup"] == 1.62


def test_what_is_not_offered_counts_as_the_original_and_loses_to_a_faster_peer() -> None:
    found = ours(offered=False, judged_peers=[judged("openvino", 1.25, 1.3)])
    assert (found["what"], found["over_baseline"]["speedup"], found["as_deployed"]["speedup"]) == ("the original", 1, 1)
    over = found["over_best_peer"]
    assert (over["speedup"], over["low"], over["high"]) == pytest.approx((1 / 1.25, 1 / 1.35, 1 / 1.15))
    assert ours(offered=False, judged_peers=[judged("openvino", 0.9, 1.8)])["over_best_peer"]["speedup"] == 1.0


def test_a_winner_that_is_the_best_peer_itself_is_exactly_as_fast_as_that() -> None:
    peers = [judged("openvino", 1.62, None), judged("ort", 1.1, 1.47)]
    found = row(run(winner="openvino", candidates=candidates("ort"), judged_peers=peers))
    assert found["ours"]["over_best_peer"]["speedup"] == 1.0
    assert found["peers"][0]["winner_over_it"] is None


def test_a_peer_that_gave_wrong_answers_or_was_not_judged_is_told_with_its_reason() -> None:
    found = {peer["name"]: peer for peer in row(run(judged_peers=[]))["peers"]}
    assert set(found) == {"openvino"}, "no baseline and none of our candidates is a peer"
    assert (found["openvino"]["judged"], found["openvino"]["over_baseline"]) == (False, None)
    assert found["openvino"]["screened_speedup"] == 1.12


def as_run(name: str, speedup: float, over_winner: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """A peer in default settings: how fast the winner is over it, and it over the original in default settings."""
    rest = {"verdict": "faster", "noise_floor": 0.01, "pairs": 6, "looks": 1, "same_settings": False}
    second = f"{name} (default settings)"
    over = {"low": over_winner - 0.1, "high": over_winner + 0.1}
    own = {"low": speedup - 0.05, "high": speedup + 0.05}
    return (
        {"base": second, "other": WINNER, "speedup": over_winner, "interval": over, "log_speedups": [], **rest},
        {"base": "baseline (default settings)", "other": second, "speedup": speedup, "interval": own,
         "log_speedups": [], **rest},
    )  # fmt: skip


def test_as_users_run_them_the_best_peer_is_the_fastest_in_default_settings() -> None:
    (ort, _), (openvino, _) = as_run("ort", 1.4, 1.65), as_run("openvino", 1.2, 1.9)
    peers = [judged("ort", 1.1, 1.47, as_run=ort), judged("openvino", 1.25, 1.3, as_run=openvino)]
    found = row(run(candidates=candidates("ort"), judged_peers=peers))
    assert found["best_peer"]["name"] == "openvino", "under the winner's settings"
    assert found["ours"]["over_best_peer_as_run"]["speedup"] == 1.65
    slow = as_run("openvino", 0.9, 2.6)[0]
    found = row(run(judged_peers=[judged("openvino", 1.25, 1.3, as_run=slow)]))
    assert found["ours"]["over_best_peer_as_run"]["speedup"] == 2.31, "the original in default settings is faster"


def test_an_original_that_stays_is_held_against_the_peers_as_users_run_them() -> None:
    (over, own) = as_run("openvino", 1.25, 1.8)
    peers = [judged("openvino", 1.1, 1.47, as_run=over)]
    found = ours(offered=False, judged_peers=peers, comparisons=[*document()["comparisons"], own])
    assert found["over_best_peer_as_run"]["speedup"] == pytest.approx(1 / 1.25)
    assert found["over_best_peer_as_run"]["low"] == pytest.approx(1 / 1.3)


def test_nothing_is_said_as_users_run_them_where_that_was_not_measured() -> None:
    assert ours(judged_peers=[judged("openvino", 1.25, 1.3)])["over_best_peer_as_run"] is None
    assert ours(offered=False, judged_peers=[judged("openvino", 1.25, 1.3)])["over_best_peer_as_run"] is None
    same = {"speedup_as_deployed": 1.62, "speedup_as_deployed_ci": {"low": 1.55, "high": 1.69}}
    found = ours(judged_peers=[judged("openvino", 1.25, 1.3)], **same)
    assert found["over_best_peer_as_run"]["speedup"] == 1.3, "the winner has default settings itself"


def test_a_failed_run_has_its_reason_and_no_figures() -> None:
    found = row(failed())
    assert (found["outcome"], found["reason"], found["problem"]) == ("failed", "No. Mend it.", "x:user:y")
    assert (found["ours"], found["best_peer"], found["winner_over_baseline"], found["peers"]) == (None, None, None, [])


def test_the_error_of_a_row_is_of_the_output_nearest_to_its_bound() -> None:
    (numerics,) = document()["numerics"]
    near = {**numerics, "error": 9e-8, "allowed": 1e-7}
    assert row(run(numerics=[numerics, near]))["error"] == 9e-8


# ---- scores --------------------------------------------------------------------------------------------------------


def suite() -> list[dict[str, Any]]:
    """Over the original 2.0, 1.28 and (not offered) 1; over the best peer 1.6, 1.25 and 0.8; and one that failed."""
    wide, narrow = {"low": 1.4, "high": 2.6}, {"low": 1.2, "high": 1.4}
    return [
        row(run("a.py", speedup=2.0, speedup_ci=wide, judged_peers=[judged("openvino", 1.2, 1.6)])),
        row(run("b.py", speedup=1.28, speedup_ci=narrow, judged_peers=[judged("openvino", 1.02, 1.25)])),
        row(run("c.py", offered=False, judged_peers=[judged("openvino", 1.25, 0.95)])),
        row(failed("d.py")),
    ]


def test_fast_p_is_over_all_models_strictly_above_p_and_told_as_proven_by_the_lower_end() -> None:
    fast = {one["p"]: (one["share"], one["proven"]) for one in scores(suite())["fast_p"]["over_baseline"]}
    assert fast == {1.0: (0.5, 0.5), 1.2: (0.5, 0.25), 1.5: (0.25, 0.0), 2.0: (0.0, 0.0)}
    fast = {one["p"]: one["share"] for one in scores(suite())["fast_p"]["over_best_peer"]}
    assert fast == {1.0: 0.5, 1.2: 0.5, 1.5: 0.25, 2.0: 0.0}


def test_geometric_means_are_over_what_was_measured_and_the_floor_is_the_worst_model() -> None:
    found = scores(suite())
    assert (found["models"], found["measured"]) == (4, 3)
    over = found["geomean"]["over_best_peer"]
    assert over["speedup"] == pytest.approx((1.6 * 1.25 * 0.8) ** (1 / 3))
    assert (over["models"], over["floor"]) == (3, {"model": "c.py", "speedup": 0.8})
    assert found["geomean"]["over_baseline"]["speedup"] == pytest.approx((2.0 * 1.28 * 1.0) ** (1 / 3))


def test_each_engine_is_told_over_the_models_that_it_was_judged_on() -> None:
    (openvino,) = scores(suite())["peers"]
    assert (openvino["name"], openvino["models"], openvino["least_winner_over_it"]) == ("openvino", 3, 0.95)
    assert openvino["over_baseline"] == pytest.approx((1.2 * 1.02 * 1.25) ** (1 / 3))
    assert openvino["winner_over_it"] == pytest.approx((1.6 * 1.25 * 0.95) ** (1 / 3))


def test_a_model_that_ran_twice_counts_once_and_not_at_all_where_one_of_them_failed() -> None:
    twice = [
        row(run("a.py", speedup=speedup, speedup_ci={"low": speedup - 0.1, "high": 2}, number=at))
        for at, speedup in enumerate((1.25, 1.8), 1)
    ]
    found = scores(twice)
    assert found["geomean"]["over_baseline"]["speedup"] == pytest.approx(1.5)
    assert found["fast_p"]["over_baseline"][1] == {"p": 1.2, "share": 1.0, "proven": 0.0}
    broken = scores([twice[0], row(failed("a.py", number=2))])
    assert (broken["measured"], broken["geomean"]["over_baseline"]) == (0, None)
    assert "0 of 1 models were measured" in report.scored(broken)
    assert broken["fast_p"]["over_baseline"][0]["share"] == 0.0


def test_a_suite_in_which_nothing_was_measured_has_no_means() -> None:
    found = scores([row(failed())])
    assert (found["geomean"], found["fast_p"]) == ({}, {})
    assert "0 of 1 models were measured" in report.scored(found)


# ---- repeated runs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runs", "agree"),
    [
        ([run()], None),
        ([failed()], None),
        ([run(), run(number=2, wall_s=301.0)], True),
        ([run(), run(number=2, verdict="cannot_tell")], False),
        ([run(), failed(number=2)], False),
        ([failed(), failed(number=2)], False),
    ],
    ids=["one", "one failed", "same", "different", "verdict and failure", "two failures"],
)
def test_repeated_runs_agree_only_when_all_came_to_the_same_verdict(runs: list[Run], agree: bool | None) -> None:
    (found,) = agreements([row(one) for one in runs])
    assert found["agree"] is agree
    assert found["wall_s"] == [one.wall_s for one in runs]


def test_only_runs_of_the_same_model_are_compared() -> None:
    runs = [run("a.py"), run("b.py", verdict="same"), run("a.py"), run("b.py", verdict="same")]
    assert [(one["model"], one["agree"]) for one in agreements(map(row, runs))] == [("a.py", True), ("b.py", True)]


# ---- the report ----------------------------------------------------------------------------------------------------


def whole(*runs: Run, models: int = 1, times: int = 1) -> str:
    return report.markdown(report.document(runs, ASKED, models=models, times=times, left_out=[]))


def cells(text: str, heading: str, first: str) -> list[list[str]]:
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if "|" in line]
    return [row for row in rows if row[0] == first]


def test_a_models_row_stands_under_its_columns() -> None:
    (found,) = cells(whole(run(judged_peers=[judged("openvino", 1.25, 1.3)])), "Models", "din.py")
    named = dict(zip(report.COLUMNS, found, strict=True))
    assert named["winner over original"] == "1.62 [1.55, 1.69]"
    assert named["as deployed"] == "2.31 [2.20, 2.43]"
    assert named["best peer"] == "openvino"
    assert named["ours over best peer"] == "1.30 [1.20, 1.40]"
    assert (named["winner"], named["error"], named["wall s"]) == (WINNER, "4.1e-07", "290")
    assert (named["original ms"], named["winner ms"]) == ("8.20", "5.06")


def test_peers_stand_with_interval_error_and_precision_and_the_others_with_why_they_were_not_judged() -> None:
    text = whole(run(candidates=candidates("ort"), judged_peers=[judged("ort", 1.1, 1.47, precision="bfloat16")]))
    ort, openvino = cells(text, "Peers", "din.py")
    assert ort[1:] == ["ort", "bfloat16", "5.00", "1.10 [1.00, 1.20]", "1.47 [1.37, 1.57]", "faster", "", "2.0e-07", ""]
    assert openvino[1:3] == ["openvino", "float32"]
    assert openvino[-1] == "passed, 1.120 in the screening"


def test_a_winner_that_is_not_offered_is_told_so() -> None:
    (found,) = cells(whole(run(offered=False, verdict="same")), "Models", "din.py")
    assert f"{WINNER} (not offered)" in found


def test_what_a_model_wrote_can_break_no_table() -> None:
    broken = failed("a|b.py")
    broken.result["problem"]["message"] = "first\nsecond | <img>\x1b[31m"
    text = whole(broken)
    assert "| a\\|b.py | failed | first second \\| &lt;img> Mend it. |" in text


def test_the_conditions_are_told_and_unlike_ones_are_warned_of() -> None:
    other = document()["conditions"] | {"fingerprint": "f" * 64}
    same = whole(run("a.py"), run("b.py"), models=2)
    assert "different sets of conditions" not in same
    assert "The runs had 2 different sets" in whole(run("a.py"), run("b.py", conditions=other), models=2)


def test_a_suite_that_was_cut_says_how_to_go_on() -> None:
    assert "**Cut short**: 1 of 6 runs. Run it again with `--resume`" in whole(run(), models=3, times=2)
    assert "Cut short" not in whole(run())
