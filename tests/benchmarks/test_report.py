"""Repeated runs of a model agree only when each came to a verdict and all to the same one."""

from __future__ import annotations

from benchmarks.report import COLUMNS, agreements, kept, markdown, outcome, row
from tests.benchmarks.documents import document, failed


def cells(text: str, model: str) -> list[list[str]]:
    """The cells of the model's rows in all tables of the report."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "|" in line]
    return [row for row in rows if row[0] == model]


def test_runs_with_the_same_verdict_agree():
    (found,) = agreements([document(wall_s=290.4), document(wall_s=301.0)])
    assert found.agree is True
    assert found.outcomes == ["faster", "faster"]
    assert found.wall_s == [290.4, 301.0]


def test_runs_with_different_verdicts_do_not():
    (found,) = agreements([document(), document(), document(verdict="cannot_tell")])
    assert found.agree is False
    assert found.in_words() == "din.py: 3 runs came to faster, faster, cannot_tell"


def test_one_run_only_has_nothing_to_agree_with():
    (found,) = agreements([document()])
    assert found.agree is None


def test_a_run_that_failed_agrees_with_none_not_even_with_another_failure():
    assert [a.agree for a in agreements([document(), failed()])] == [False]
    assert [a.agree for a in agreements([failed(), failed()])] == [False]
    assert agreements([document(), failed()])[0].outcomes == ["faster", "failed"]
    assert [a.agree for a in agreements([failed()])] == [None]


def test_only_runs_of_the_same_model_are_compared():
    found = agreements(
        [document("din.py"), document("dlrm.py", "same"), document("din.py"), document("dlrm.py", "same")]
    )
    assert [(a.model, a.agree) for a in found] == [("din.py", True), ("dlrm.py", True)]


def test_no_runs_at_all_give_no_agreement():
    assert agreements([]) == []


def test_the_outcome_is_the_verdict_or_else_the_status():
    assert outcome(document(verdict="slower")) == "slower"
    assert outcome(failed(status="errored")) == "errored"


def test_a_row_holds_the_figures_under_their_columns():
    measured = document(
        baseline_ms=10.0,
        best_ms=4.0,
        speedup=2.5,
        speedup_ci={"low": 2.25, "high": 2.75},
        speedup_as_deployed=3.125,
        best_peer={"name": "openvino", "speedup": 1.5, "interval": {"low": 1.25, "high": 1.75}},
        speedup_over_best_peer=1.625,
        winner="aot_inductor + rewrites",
        numerics=[{"error": 1.5e-7}, {"error": 2.5e-6}],
    )
    assert dict(zip(COLUMNS, row(measured), strict=True)) == {
        "model": "din.py",
        "baseline ms": "10.00",
        "best ms": "4.00",
        "speedup": "2.50 [2.25, 2.75]",
        "as deployed": "3.12",
        "verdict": "faster",
        "best peer": "openvino",
        "peer speedup": "1.50 [1.25, 1.75]",
        "over peer": "1.62",
        "winner": "aot_inductor + rewrites",
        "max error": "2.5e-06",
        "wall s": "290",
    }


def test_the_row_of_a_failed_run_says_so_and_leaves_the_figures_empty():
    found = dict(zip(COLUMNS, row(failed()), strict=True))
    assert {name for name, cell in found.items() if cell} == {"model", "verdict", "wall s"}
    assert found["verdict"] == "failed"


def test_the_report_has_a_row_a_run_and_a_section_that_says_whether_verdicts_agree():
    runs = [document("din.py"), document("din.py", "same", wall_s=301.0), document("dlrm.py"), document("dlrm.py")]
    text = markdown([*runs, document("bert.py")])
    table, _, section = text.partition("\n## Verdicts agree\n")
    assert [len(cells(table, model)) for model in ("din.py", "dlrm.py", "bert.py")] == [2, 2, 1]
    assert cells(section, "din.py") == [["din.py", "2", "faster, same", "NO", "290, 301"]]
    assert cells(section, "dlrm.py") == [["dlrm.py", "2", "faster, faster", "yes", "290, 290"]]
    assert cells(section, "bert.py") == [["bert.py", "1", "faster", "one run only", "290"]]
    assert text.endswith("|\n")


def test_the_json_keeps_figures_and_seconds_but_not_what_is_long():
    assert kept(document(profile={"operations": []}, rewrites=[1], winner="w")) == {
        "model": "din.py",
        "wall_s": 290.4,
        "status": "succeeded",
        "verdict": "faster",
        "winner": "w",
    }
