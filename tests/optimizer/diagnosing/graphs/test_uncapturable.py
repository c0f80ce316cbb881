"""A model that has no single graph is diagnosed at the user's line, with the remedy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from optimizer.__main__ import main
from optimizer.diagnosing.base import Evidence, diagnose
from optimizer.diagnosing.diagnosis import Diagnosis
from optimizer.errors import FuseworksError
from optimizer.result import Finding, Problem
from tests.optimizer.capturing.uploads import capture, line_of, module
from tests.optimizer.diagnosing.graphs.plants import captured, evidence

BRANCH = "def forward(self, x):\n    if x.sum() > 0:\n        x = x * 2\n    return x + 1"
NUMBER = "def forward(self, x):\n    for _ in range(int(x[0, 0].item())):\n        x = x * 2\n    return x"
POINTER = "def forward(self, x):\n    return x + 0 * (x.data_ptr() % 2)"
FIXED = "def forward(self, x):\n    return x.reshape(16, 8) * 2"
DYNAMIC = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 8]}],
    "dims": {"batch": {"serve": [16, 32], "max": 64}},
}


def refused(path: Path, scratch: Path, **more: Any) -> list[Finding]:
    with pytest.raises(FuseworksError) as caught:
        capture(path, scratch, **more)
    return diagnose(Evidence.of_problem(Problem.model_validate(caught.value.document())))


@pytest.mark.parametrize(
    ("body", "words", "rule"),
    [
        (BRANCH, "if x.sum()", "data_dependent_branch"),
        (NUMBER, "range(int(", "values_as_numbers"),
        (POINTER, "x.data_ptr()", "graph_breaks"),
    ],
)
def test_what_no_graph_holds_is_one_finding_with_its_line(body: str, words: str, rule: str, tmp_path: Path) -> None:
    path = module(tmp_path, body)
    (finding,) = refused(path, tmp_path / "scratch")
    assert (finding.rule, finding.severity) == (rule, "high")
    line = f"model.py:{line_of(path, words)}"
    assert finding.evidence["sources"] == [line] and finding.title.endswith(f", at {line}")
    assert finding.steps and finding.remedy.startswith(finding.steps[0])


def test_a_declared_size_that_the_code_fixes_is_a_risk_to_compile_again(tmp_path: Path) -> None:
    path = module(tmp_path, FIXED)
    (finding,) = refused(path, tmp_path / "scratch", workload=DYNAMIC)
    assert finding.rule == "recompile_risk"
    assert "batch" in finding.title and finding.evidence["sources"] == [f"model.py:{line_of(path, 'reshape')}"]


def test_a_batch_that_the_code_fixes_is_told_with_its_line_where_none_is_declared(tmp_path: Path) -> None:
    answer = captured(tmp_path, FIXED, "[torch.randn(16, 8)]")
    found = diagnose(evidence(answer, dynamic_batch=False))
    assert {finding.rule for finding in found} == {"baked_batch", "recompile_risk"}
    finding = next(one for one in found if one.rule == "recompile_risk")
    assert finding.evidence["sources"] == [f"model.py:{line_of(tmp_path / 'model.py', 'reshape')}"]


def test_errors_of_another_kind_are_no_finding() -> None:
    problem = Problem(id="capturing:user:syntax-error", side="user", message="no Python", place="model.py:1")
    assert diagnose(Evidence.of_problem(problem)) == []


@pytest.mark.parametrize("as_json", [True, False])
def test_the_command_names_line_and_remedy_and_still_says_whose_fault_it_is(
    as_json: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = module(tmp_path, BRANCH)
    assert main(["diagnose", "--trusted", *(["--json"] if as_json else []), str(path)]) == 4
    out = capsys.readouterr().out
    line = f"model.py:{line_of(path, 'if x.sum()')}"
    if as_json:
        answer = Diagnosis.model_validate(json.loads(out))
        assert answer.problem is not None and answer.problem.place == line
        assert [finding.rule for finding in answer.findings] == ["data_dependent_branch"]
    else:
        assert f"at {line}" in out and "torch.where(condition, a, b)" in out
