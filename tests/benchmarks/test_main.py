"""The command's exit code and files, on answers that were made up; the optimizer itself is never started."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from tests.benchmarks.documents import document, failed

CONDITIONS = {"conditions": {"fingerprint": "0123456789abcdef"}}


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs the command on `answers`, given out one after another."""

    def benchmark(answers, *arguments):
        given = iter(answers)
        asked = []

        def optimize(model, budget):
            asked.append((model.name, budget))
            return {**next(given), "model": model.name}

        monkeypatch.setattr(command, "optimize", optimize)
        monkeypatch.setattr(command, "REPORTS", tmp_path)
        return command.main(list(arguments)), asked

    return benchmark


def test_verdicts_that_agree_are_a_success_and_both_files_are_written(run, tmp_path, capsys):
    code, asked = run([document(**CONDITIONS), document(**CONDITIONS)], "a/din.py", "--times", "2", "--budget", "90s")
    assert code == 0
    assert asked == [("din.py", "90s"), ("din.py", "90s")]
    folder = tmp_path / "0123456789ab"
    assert [d["wall_s"] for d in json.loads((folder / "examples.json").read_text())] == [290.4, 290.4]
    assert "## Verdicts agree" in (folder / "examples.md").read_text()
    assert "differ" not in capsys.readouterr().err


def test_verdicts_that_differ_end_with_one_and_name_the_model_on_stderr(run, tmp_path, capsys):
    answers = [document(), document(verdict="same"), document(), document()]
    code, _ = run(answers, "din.py", "dlrm.py", "--times", "2")
    assert code == 1
    told = capsys.readouterr().err
    assert "==> The verdicts differ: din.py: 2 runs came to faster, same" in told
    assert "dlrm.py: 2 runs" not in told
    assert (tmp_path / "unknown" / "examples.md").exists(), "the report is written all the same"


def test_a_failed_run_beside_one_with_a_verdict_ends_with_one(run, capsys):
    code, _ = run([document(), failed()], "din.py", "--times", "2")
    assert code == 1
    assert "faster, failed" in capsys.readouterr().err


def test_single_runs_are_not_compared(run):
    code, asked = run([document(), document(verdict="same")], "din.py", "dlrm.py")
    assert code == 0
    assert [name for name, _ in asked] == ["din.py", "dlrm.py"]


def test_no_run_at_all_is_refused(run, capsys):
    with pytest.raises(SystemExit) as ended:
        run([], "din.py", "--times", "0")
    assert ended.value.code == 2
    assert "--times must be at least 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("stdout", "status", "verdict"),
    [('{"status": "succeeded", "verdict": "same"}', "succeeded", "same"), ("", "no answer (exit 3)", None)],
)
def test_a_run_is_kept_with_its_seconds_even_when_it_gave_no_answer(monkeypatch, stdout, status, verdict):
    started = []

    def answered(arguments, **_):
        started.append(arguments)
        return subprocess.CompletedProcess(arguments, 3, stdout=stdout)

    monkeypatch.setattr(command.subprocess, "run", answered)
    found = command.optimize(Path("examples/din.py"), "90s")
    assert (found["model"], found["status"], found.get("verdict")) == ("din.py", status, verdict)
    assert found["wall_s"] >= 0
    assert started[0][1:7] == ["-m", "fuseworks_client", "optimize", "examples/din.py", "--json", "--budget"]
