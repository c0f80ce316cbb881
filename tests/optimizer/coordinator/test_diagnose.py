"""Traces through the whole verb: read in children, ruled upon, told as JSON and as text, refused by name."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import pytest

from optimizer.__main__ import _folder, main
from optimizer.coordinator import diagnose as diagnosing
from optimizer.coordinator.diagnose import _told, diagnose
from optimizer.coordinator.traces import TraceFile, read_traces
from optimizer.diagnosing.diagnosis import NOTHING, Diagnosis
from optimizer.errors import FuseworksError
from optimizer.result import Finding, Result
from tests.optimizer.diagnosing.traces.building import Building
from tests.optimizer.diagnosing.traces.plants import PLANTS
from tests.optimizer.diagnosing.traces.training import Training
from tests.optimizer.reporting.sample import result

BELL = "\x1b]0;owned\x07"


def training(rank: int = 0, *, waits_for_data: bool = False) -> Building:
    plant = PLANTS["data_loading"]
    return Training(rank=rank).run(lambda one: plant(one, 2000)) if waits_for_data else Training(rank=rank).run()


def problem(answer: Diagnosis) -> tuple[str, str | None]:
    assert answer.problem is not None
    return answer.problem.id, answer.problem.place


def test_a_trace_is_read_in_the_sandbox_and_diagnosed(tmp_path: Path) -> None:
    answer = diagnose([training(waits_for_data=True).write(tmp_path / "t.json.gz")])
    assert answer.problem is None
    assert answer.sandbox in ("bubblewrap", "landlock")
    assert (answer.facts["steps"], answer.facts["ranks"], answer.of) == (4, 1, ["t.json.gz"])
    assert answer.findings[0].rule == "data_loading"
    assert answer.summary.startswith("The GPU is busy for 83% of ")
    assert answer.recoverable_share is not None and answer.recoverable_share[1] == pytest.approx(0.16, abs=0.01)


def test_without_a_sandbox_the_answer_says_so(tmp_path: Path) -> None:
    assert "trusted" in diagnose([training().write(tmp_path / "t.json")], trusted=True).sandbox


def test_a_healthy_trace_has_nothing_worth_doing(tmp_path: Path) -> None:
    answer = diagnose([training().write(tmp_path / "t.json")], trusted=True)
    assert (answer.findings, answer.problem) == ([], None)
    assert answer.summary.endswith(NOTHING)


def test_a_zip_of_ranks_is_one_job_in_the_order_of_its_ranks(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "ranks.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("b.json", training(rank=0).text())
        archive.writestr("a.json.gz", gzip.compress(training(rank=1, waits_for_data=True).text().encode()))
    answer = diagnose([tmp_path / "ranks.zip"], trusted=True)
    assert [(rank.trace, rank.rank) for rank in answer.ranks] == [("b.json", 0), ("a.json.gz", 1)]
    assert answer.facts["ranks"] == 2
    assert answer.findings[0].evidence["trace"] == "a.json.gz"
    assert [row.rank for row in answer.waits] == [0, 1]


def test_two_traces_are_compared(tmp_path: Path) -> None:
    before = training(waits_for_data=True).write(tmp_path / "before.json")
    answer = diagnose([training().write(tmp_path / "after.json")], against=[before], trusted=True)
    assert answer.comparison is not None
    assert answer.comparison.rows[0].name == "(idle: data loading)"
    assert (answer.comparison.base, answer.comparison.of) == (["before.json"], ["after.json"])
    assert answer.comparison.difference_ms == pytest.approx(-2.0, abs=0.05)


def test_what_is_left_out_is_told(tmp_path: Path) -> None:
    job = Building()
    job.op("aten::mm", 0, 10)
    job.events.append({"ph": "X", "cat": "cpu_op", "name": 3, "ts": 1, "dur": 1})
    notes = " ".join(diagnose([job.write(tmp_path / "t.json")], trusted=True).notes)
    assert "no GPU event in t.json" in notes
    assert "marks no steps" in notes
    assert "1 events of t.json make no sense" in notes


@pytest.mark.parametrize("trusted", [True, False])
def test_a_file_of_another_kind_is_refused_by_name(tmp_path: Path, trusted: bool) -> None:
    (tmp_path / "et.json").write_text('{"schema": "1.0.1", "nodes": []}')
    answer = diagnose([tmp_path / "et.json"], trusted=trusted)
    assert problem(answer) == ("diagnosing:user:foreign", "et.json")
    assert answer.problem is not None and "PyTorch execution trace" in answer.problem.message
    assert "export_chrome_trace" in answer.problem.remedy


def test_one_bad_rank_is_named_among_good_ones(tmp_path: Path) -> None:
    good = training().write(tmp_path / "good.json")
    (tmp_path / "cut.json").write_text(training().text()[:-2000])
    answer = diagnose([good, tmp_path / "cut.json"], trusted=True)
    assert problem(answer) == ("diagnosing:user:cut-off", "cut.json")


def test_a_zip_that_no_tool_writes_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "ranks.zip", "w") as archive:
        archive.writestr("../../rank0.json", "{}")
    assert problem(diagnose([tmp_path / "ranks.zip"])) == ("diagnosing:user:bad-archive", "ranks.zip")


def test_traces_and_models_do_not_mix(tmp_path: Path) -> None:
    trace = training().write(tmp_path / "t.json")
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("x = 1")
    assert problem(diagnose([trace, tmp_path / "a.py"]))[0] == "diagnosing:usage:two-kinds"
    assert problem(diagnose([tmp_path / "a.py", tmp_path / "b.py"]))[0] == "diagnosing:usage:many-models"
    assert problem(diagnose([trace], against=[tmp_path / "a.py"]))[0] == "diagnosing:usage:against"
    assert problem(diagnose([tmp_path / "a.py"], against=[trace]))[0] == "diagnosing:usage:against"
    assert problem(diagnose([tmp_path / "none.json"]))[0] == "diagnosing:usage:missing"


def test_an_answer_that_is_no_trace_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from optimizer.sandbox import child

    real = child.Child.call

    def lying(self: child.Child, op: str, *arrays: object, **fields: object) -> object:
        reply = real(self, op, *arrays, **fields)  # type: ignore[arg-type]
        reply.fields["trace"]["busy_ms"] = "very"
        return reply

    monkeypatch.setattr(child.Child, "call", lying)
    file = TraceFile(training().write(tmp_path / "t.json"), None)
    with pytest.raises(FuseworksError) as caught:
        read_traces([file], trusted=True)
    assert caught.value.id == "child:user:bad-answer"


def test_a_model_goes_through_its_own_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.py").write_text("x = 1")
    finding = Finding(rule="page_faults", severity="low", title="Faults")
    found = Result.model_construct(
        findings=[finding],
        notes=["n"],
        sandbox="bubblewrap",
        problem=None,
        inspection=None,
        profile=None,
        summary="one",
    )
    specs = []
    monkeypatch.setattr(diagnosing, "_executed", lambda spec, timeline: specs.append(spec) or found)
    answer = diagnose([tmp_path / "model.py"])
    assert specs[0].model == str(tmp_path / "model.py")
    assert (answer.findings, answer.summary, answer.notes) == ([finding], "one", ["n"])


def test_a_trace_of_a_trace_makes_no_sense(tmp_path: Path) -> None:
    path = training().write(tmp_path / "t.json")
    assert problem(diagnose([path], trusted=True, timeline=True)) == ("diagnosing:usage:trace", None)


def test_a_model_that_tells_no_times_of_its_operations_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.py").write_text("x = 1")
    monkeypatch.setattr(diagnosing, "_executed", lambda spec, timeline: result(profile=None, findings=[]))
    assert diagnosing.NO_TIMELINE in diagnose([tmp_path / "model.py"], timeline=True).notes
    assert diagnosing.NO_TIMELINE not in diagnose([tmp_path / "model.py"]).notes


# ---- the program ---------------------------------------------------------------------------------------------------


def test_json_is_one_document_by_the_published_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = training(waits_for_data=True).write(tmp_path / "t.json")
    assert main(["diagnose", "--json", "--trusted", str(path)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert Diagnosis.model_validate(answer).model_dump(mode="json") == answer
    assert answer["facts"]["kernels"] > 0
    assert main(["schema", "diagnosis"]) == 0
    assert "facts" in json.loads(capsys.readouterr().out)["properties"]


def test_sarif_and_markdown_go_by_the_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = training(waits_for_data=True).write(tmp_path / "t.json")
    assert main(["diagnose", "--format", "sarif", "--trusted", str(path)]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["results"][0]["ruleId"] == "data_loading"
    assert main(["diagnose", "--format", "markdown", "--trusted", str(path)]) == 0
    assert capsys.readouterr().out.startswith("# Diagnosis of `t.json`\n\nThe GPU is busy for 83% of ")


@pytest.mark.parametrize(
    ("given", "folder"), [("din.py", "."), ("models/din.py", "models"), ("/srv/din.py", ""), ("../din.py", "")]
)
def test_a_file_below_the_working_folder_is_taken_to_lie_in_its_repository(given: str, folder: str) -> None:
    assert _folder([Path(given)]) == folder
    assert _folder([Path(given), Path("other.json")]) == ""


def test_text_names_causes_costs_and_remedies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = training(waits_for_data=True).write(tmp_path / "t.json")
    assert main(["diagnose", "--trusted", str(path)]) == 0
    text = capsys.readouterr().out
    assert "1. [high] The DataLoader takes" in text
    assert "of the time; mended: 1." in text
    assert "   -> Load in other processes: DataLoader(num_workers=4" in text
    assert "gpu_busy_share" in text and "without the sandbox" in text


def test_names_of_a_trace_do_not_drive_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = training(waits_for_data=True)
    job.op(f"aten::{BELL}", 5000, 1e6)
    path = job.write(tmp_path / "t.json")
    assert main(["diagnose", "--trusted", str(path), f"--against={path}"]) == 0
    out = capsys.readouterr()
    assert "\x1b" not in out.out and "\x07" not in out.out


@pytest.mark.parametrize(("as_json", "text"), [(True, "{"), (False, "")])
def test_the_exit_code_says_whose_fault_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool, text: str
) -> None:
    (tmp_path / "other.json").write_text('{"a": 1}')
    flags = ["--json"] if as_json else []
    assert main(["diagnose", "--trusted", *flags, str(tmp_path / "other.json")]) == 4
    out = capsys.readouterr()
    assert out.out[:1] == text
    assert "a JSON object with the keys a" in out.err and "torch.profiler.profile" in out.err
    assert main(["diagnose", "--trusted", *flags, str(tmp_path / "none.json")]) == 64


def test_a_models_summary_says_what_mending_gives_back_where_that_is_worth_it() -> None:
    finding = Finding(rule="a", severity="high", title="slow", counted_share=0.2)
    assert _told([finding], (0.1, 0.3)) == ("1 finding; mending what can be told gives back 10% to 30% of the time")
    assert _told([finding], (0.0, 0.01)) == _told([finding], None) == "1 finding"
