"""`fuseworks bench`: which files are models, what each run is asked, what is kept, and how the suite ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from optimizer.spec import RunSpec
from tests.client.conftest import Command

AS_MODEL = "\nclass Model: ...\ndef get_inputs(): ...\n"


@pytest.fixture
def folder(fuseworks: Command) -> Path:
    """`models/` with two that work and one whose own fault it is that it does not."""
    models = fuseworks.folder / "models"
    (models / "vision").mkdir(parents=True)
    (models / "din.py").write_text("ok" + AS_MODEL)
    (models / "broken.py").write_text("user" + AS_MODEL)
    (models / "vision" / "unet.onnx").write_text("ok")
    (models / "helpers.py").write_text("def useful(): ...")
    (models / "__pycache__").mkdir()
    (models / "__pycache__" / "old.py").write_text("ok" + AS_MODEL)
    return models


def report(fuseworks: Command, out: str = "suite") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((fuseworks.folder / out / "report.json").read_text())
    return found


def rows(fuseworks: Command) -> dict[str, str]:
    return {row["model"]: row["outcome"] for row in report(fuseworks)["rows"]}


def specs(fuseworks: Command) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((fuseworks.folder / "suite" / "runs").glob("*/seen.json"))]


def test_every_model_below_a_folder_is_a_row_and_one_that_fails_ends_nothing(fuseworks: Command, folder: Path):
    done = fuseworks("bench", "models", "--out", "suite")
    assert done.returncode == 0, done.stderr
    assert rows(fuseworks) == {"broken.py": "failed", "din.py": "faster", "vision/unet.onnx": "faster"}
    (failed,) = (row for row in report(fuseworks)["rows"] if row["model"] == "broken.py")
    assert (failed["reason"], failed["problem"]) == ("No export Mend it.", "capture:user:x")
    assert "helpers.py is left out: no Model with get_inputs in it" in done.stderr
    assert report(fuseworks)["left_out"] == ["helpers.py"]
    assert "| broken.py | failed | No export Mend it. |" in (fuseworks.folder / "suite" / "report.md").read_text()


def test_each_run_is_an_optimize_run_with_the_lane_and_budget_and_all_peers_in_its_judgement(
    fuseworks: Command, folder: Path
):
    fuseworks("bench", "models/din.py", "--out", "suite", "--lane", "bf16", "--budget", "90s", "--max-pairs", "12")
    (spec,) = specs(fuseworks)
    policy = RunSpec.model_validate(spec).policy
    assert (spec["purpose"], spec["model"]) == ("optimize", str(folder / "din.py"))
    assert (policy.precisions, policy.budget_s, policy.rivals) == (["float32", "bfloat16"], 90.0, "all")
    assert (policy.ablation, policy.max_pairs) == (False, 12)


def test_the_lane_int8_allows_all_that_is_more_precise_too(fuseworks: Command, folder: Path):
    fuseworks("bench", "models/din.py", "--out", "suite", "--lane", "int8")
    policy = RunSpec.model_validate(specs(fuseworks)[0]).policy
    assert policy.precisions == ["float32", "bfloat16", "int8"]


def test_by_default_only_float32_is_allowed_and_the_best_peer_alone_can_be_asked_for(fuseworks: Command, folder: Path):
    fuseworks("bench", "models/din.py", "--out", "suite", "--rivals", "best")
    policy = RunSpec.model_validate(specs(fuseworks)[0]).policy
    assert (policy.precisions, policy.budget_s, policy.rivals) == (["float32"], 360.0, "best")


def test_json_is_the_report_and_nothing_else_on_stdout(fuseworks: Command, folder: Path):
    done = fuseworks("bench", "models/din.py", "--out", "suite", "--json")
    document = json.loads(done.stdout)
    assert document == report(fuseworks)
    assert (document["schema_version"], document["kind"], document["complete"]) == ("1.0", "fuseworks.bench", True)
    assert document["asked"]["models"] == 1


def test_a_resumed_suite_repeats_only_what_came_to_no_outcome(fuseworks: Command, folder: Path):
    (folder / "vision" / "unet.onnx").write_text("ours")
    assert fuseworks("bench", "models", "--out", "suite").returncode == 3
    first = {spec["model"]: spec["out"] for spec in specs(fuseworks)}
    for out in first.values():
        (Path(out) / "mark").write_text("")
    done = fuseworks("bench", "models", "--out", "suite", "--resume")
    assert done.returncode == 3
    again = {Path(model).name for model, out in first.items() if not (Path(out) / "mark").exists()}
    assert again == {"unet.onnx"}
    assert "==> din.py, 2 of 3, kept from before" in done.stderr
    assert rows(fuseworks)["din.py"] == "faster", "what was kept is in the report"


@pytest.mark.parametrize(
    ("changed", "options"),
    [("", ["--budget", "5m"]), ("", ["--lane", "bf16"]), ("", ["--rivals", "best"]), ("ok # new", [])],
    ids=["budget", "lane", "rivals", "file"],
)
def test_a_run_with_another_question_or_file_is_not_taken_for_this_one(
    fuseworks: Command, folder: Path, changed: str, options: list[str]
):
    fuseworks("bench", "models/din.py", "--out", "suite")
    if changed:
        (folder / "din.py").write_text(changed + AS_MODEL)
    done = fuseworks("bench", "models/din.py", "--out", "suite", "--resume", *options)
    assert "kept from before" not in done.stderr


def test_without_resume_everything_is_measured_anew(fuseworks: Command, folder: Path):
    fuseworks("bench", "models/din.py", "--out", "suite")
    assert "kept from before" not in fuseworks("bench", "models/din.py", "--out", "suite").stderr


@pytest.mark.parametrize("behaviour", ["ours", "crash"])
def test_our_own_fault_is_a_row_and_exit_code_3(fuseworks: Command, folder: Path, behaviour: str):
    (folder / "din.py").write_text(behaviour + AS_MODEL)
    done = fuseworks("bench", "models", "--out", "suite")
    assert done.returncode == 3
    assert "Without an outcome by our fault: din.py" in done.stderr
    assert rows(fuseworks) == {"broken.py": "failed", "din.py": "errored", "vision/unet.onnx": "faster"}


def test_an_interrupted_suite_says_so_and_goes_on_where_it_was(fuseworks: Command, folder: Path):
    (folder / "vision" / "unet.onnx").write_text("hang")
    process = fuseworks.start("bench", "models", "--out", "suite")
    runs = fuseworks.folder / "suite" / "runs"
    until = time.monotonic() + 30
    while not list(runs.glob("*/pids")) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Interrupted: --resume --out suite goes on" in error
    assert report(fuseworks)["complete"] is False
    assert "**Cut short**: 2 of 3 runs" in (fuseworks.folder / "suite" / "report.md").read_text()
    (folder / "vision" / "unet.onnx").write_text("ok")
    done = fuseworks("bench", "models", "--out", "suite", "--resume")
    assert (done.returncode, done.stderr.count("kept from before")) == (0, 2)
    assert report(fuseworks)["complete"] is True


def test_repeated_runs_are_compared(fuseworks: Command, folder: Path):
    done = fuseworks("bench", "models/din.py", "--out", "suite", "--times", "2")
    assert done.returncode == 0
    assert report(fuseworks)["agreements"][0]["agree"] is True
    assert "## Verdicts agree" in (fuseworks.folder / "suite" / "report.md").read_text()


def test_runs_that_disagree_are_code_1_and_named(fuseworks: Command, folder: Path):
    fuseworks("bench", "models/din.py", "--out", "suite", "--times", "2")
    second = next(path for path in (fuseworks.folder / "suite" / "runs").iterdir() if path.name.endswith("-2"))
    answer = json.loads((second / "result.json").read_text())
    (second / "result.json").write_text(json.dumps({**answer, "verdict": "same", "offered": False}))
    done = fuseworks("bench", "models/din.py", "--out", "suite", "--times", "2", "--resume")
    assert done.returncode == 1
    assert "The verdicts differ: din.py: 2 runs came to faster, same" in done.stderr


def test_files_of_the_same_name_are_told_apart_and_none_is_measured_twice(fuseworks: Command, folder: Path):
    other = fuseworks.folder / "other"
    other.mkdir()
    (other / "din.py").write_text("ok # other" + AS_MODEL)
    done = fuseworks("bench", "models/din.py", "other", "other/din.py", "--out", "suite")
    assert done.returncode == 0
    labels = {row["model"] for row in report(fuseworks)["rows"]}
    assert labels == {(folder / "din.py").as_posix(), (other / "din.py").as_posix()}


def test_what_a_suite_leaves_is_no_model_of_the_next(fuseworks: Command, folder: Path):
    fuseworks("bench", "models", "--out", "models/suite")
    (folder / "suite" / "runs" / "copy.py").write_text("ok" + AS_MODEL)
    fuseworks("bench", "models", "--out", "models/suite")
    assert len(report(fuseworks, "models/suite")["rows"]) == 3


def test_packages_are_not_kept(fuseworks: Command, folder: Path):
    (folder / "din.py").write_text("packages" + AS_MODEL)
    done = fuseworks("bench", "models/din.py", "--out", "suite")
    assert done.returncode == 0
    (run,) = (fuseworks.folder / "suite" / "runs").iterdir()
    assert sorted(path.name for path in run.iterdir()) == ["log.txt", "result.json", "run.json", "seen.json"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bench"], "Missing argument"),
        (["bench", "absent"], "does not exist"),
        (["bench", "empty"], "No model (.py, .zip, .pt2, .onnx) in empty"),
        (["bench", "models", "--resume"], "--resume needs --out"),
        (["bench", "models", "--lane", "int4"], "int4"),
        (["bench", "models", "--times", "0"], "0 is not in the range"),
        (["bench", "models", "--out", "models/din.py"], "is a file"),
    ],
)
def test_a_suite_that_makes_no_sense_is_code_64(fuseworks: Command, folder: Path, arguments: list[str], words: str):
    (fuseworks.folder / "empty").mkdir()
    done = fuseworks(*arguments)
    assert done.returncode == 64
    assert words in done.stderr


def test_a_question_that_the_optimizer_refuses_ends_the_suite_at_once(fuseworks: Command, folder: Path):
    (folder / "broken.py").write_text("usage" + AS_MODEL)
    done = fuseworks("bench", "models", "--out", "suite")
    assert done.returncode == 64
    assert "workload.inputs: Field required" in done.stderr
    assert len(specs(fuseworks)) == 1


def test_a_run_that_does_not_end_is_ended(fuseworks: Command, folder: Path):
    (folder / "din.py").write_text("hang" + AS_MODEL)
    code = (
        "import sys; from fuseworks_client.suite import runs; runs.LIMIT_S = 0.0; runs.LIMIT_SHARE = 0.02\n"
        "from fuseworks_client.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    (fuseworks.folder / "short.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "short.py", "bench", "models/din.py", "--out", "suite", "--budget", "60s"],
        cwd=fuseworks.folder, env=fuseworks.environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 3
    (row,) = report(fuseworks)["rows"]
    assert (row["outcome"], row["ours"]) == ("cancelled", None)
    (log,) = (fuseworks.folder / "suite" / "runs").glob("*/log.txt")
    assert "still at work after 1 s" in log.read_text()
