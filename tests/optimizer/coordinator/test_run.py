"""Exceptions become a status in one place; what was found until then is kept, and nothing of an earlier run passes."""

from __future__ import annotations

import json

import pytest

from optimizer.coordinator import run
from optimizer.errors import FuseworksError
from optimizer.result import Inspection, RunStatus
from optimizer.spec import Policy, Purpose, RunSpec

INSPECTION = Inspection(format="py", sha256="0" * 64, size_bytes=1, parameters=7, parameter_bytes=28)


def executed(monkeypatch, tmp_path, work):
    monkeypatch.setitem(run.PURPOSES, Purpose.OPTIMIZE, work)
    events = []
    result = run.execute(RunSpec(model="model.py", out=str(tmp_path)), events.append)
    return result, events, json.loads((tmp_path / "result.json").read_text())


def test_work_that_ends_is_a_success(monkeypatch, tmp_path):
    result, events, document = executed(monkeypatch, tmp_path, lambda context, answer: None)
    assert result.status == RunStatus.SUCCEEDED
    assert document["status"] == "succeeded"
    assert events[-1].kind == "finished"


@pytest.mark.parametrize(
    ("id_", "status"),
    [("child:user:crashed", RunStatus.FAILED), ("child:ours:unexpected", RunStatus.ERRORED)],
)
def test_the_errors_side_decides_between_failed_and_errored(monkeypatch, tmp_path, id_, status):
    def work(context, answer):
        answer.inspection = INSPECTION
        raise FuseworksError(id_, signal="SIGSEGV")

    result, _, document = executed(monkeypatch, tmp_path, work)
    assert result.status == status
    assert document["problem"]["id"] == id_
    assert document["inspection"]["parameters"] == 7, "what was found before the error is kept"


def test_what_nobody_foresaw_is_ours_with_its_traceback(monkeypatch, tmp_path):
    def work(context, answer):
        raise ZeroDivisionError("a planted fault")

    result, _, document = executed(monkeypatch, tmp_path, work)
    assert result.status == RunStatus.ERRORED
    assert "a planted fault" in document["problem"]["detail"]


@pytest.mark.parametrize(("budget_s", "notes"), [(59.5, 1), (60, 0)])
def test_a_short_budget_is_told_in_the_notes(monkeypatch, tmp_path, budget_s, notes):
    monkeypatch.setitem(run.PURPOSES, Purpose.OPTIMIZE, lambda context, answer: None)
    spec = RunSpec(model="model.py", out=str(tmp_path), policy=Policy(budget_s=budget_s))
    result = run.execute(spec, lambda event: None)
    told = ["59.5 s are a short budget: below 60 s a run rarely comes to a verdict."]
    assert result.notes == told[:notes]


def test_an_interrupted_run_leaves_its_partial_answer(monkeypatch, tmp_path):
    def work(context, answer):
        answer.inspection = INSPECTION
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        executed(monkeypatch, tmp_path, work)
    document = json.loads((tmp_path / "result.json").read_text())
    assert document["status"] == "cancelled"
    assert document["inspection"]["parameters"] == 7


def test_the_recipe_and_package_of_an_earlier_run_do_not_pass_for_this_ones(monkeypatch, tmp_path):
    (tmp_path / "recipe.yaml").write_text("old")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "run.py").write_text("old")
    (tmp_path / "notes.txt").write_text("the user's own")
    executed(monkeypatch, tmp_path, lambda context, answer: None)
    assert not (tmp_path / "recipe.yaml").exists()
    assert not (tmp_path / "package").exists()
    assert (tmp_path / "notes.txt").exists()


def test_a_report_that_fails_is_named_and_costs_nothing_else(monkeypatch, tmp_path):
    def work(context, answer):
        answer.inspection = INSPECTION

    def broken(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr(run, "write_report", broken)
    result, _, document = executed(monkeypatch, tmp_path, work)
    assert result.status == RunStatus.SUCCEEDED
    assert document["notes"] == ["The report could not be written: OSError: no space left"]
