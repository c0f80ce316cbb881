"""The report says what the figures say; the command writes it and its exit code tells whether verdicts hold."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from benchmarks.calibration import analyse as analysing
from benchmarks.calibration.__main__ import main
from benchmarks.calibration.analyse import Report, analyse
from benchmarks.calibration.chart import power_curve
from benchmarks.calibration.report import markdown
from tests.benchmarks.calibration.synthetic import saved, simulated

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = tmp_path_factory.mktemp("recording")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analysing, "SHAKES", 2)
        patch.setattr(analysing, "MIN_NEED_TRIALS", 10)
        sets = {"quiet-default": simulated(12), "noisy-pinned": simulated(12, process_sd=0.1)}
        return analyse(saved(folder, sets), trials=40)


def row(text: str, *cells: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith("| " + " | ".join(cells) + " |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_every_condition_has_its_rates_under_the_name_that_people_use(report: Report) -> None:
    text = markdown(report)
    tally = report.conditions[0].equal[0]
    cells = row(text, "quiet, default allocator", "in blocks")
    assert cells[2] == "40"
    assert cells[3].startswith(f"{tally.wrong / 40 * 100:.1f} % [0.0, ")
    assert "### Noisy neighbour, pinned allocator" in text
    assert f"that {'holds' if report.holds else '**does not hold**'}" in text


def test_a_wrong_verdict_too_many_is_said_in_the_first_lines(report: Report) -> None:
    bad = report.conditions[0].equal[0].model_copy(update={"wrong": 2})
    condition = report.conditions[0].model_copy(update={"equal": [bad]})
    text = markdown(report.model_copy(update={"holds": False, "conditions": [condition]}))
    assert not condition.holds
    assert "**does not hold**. The worst is 5.0 % (quiet, default allocator)" in text


def test_every_difference_has_a_row_in_every_condition(report: Report) -> None:
    lines = markdown(report).splitlines()
    for percent in (1, 2, 3, 5, 8, 10):
        assert sum(line.startswith(f"| {percent} % | ") for line in lines) == 2


def test_the_curve_lies_where_its_points_are() -> None:
    text = power_curve({"quiet <1>": [(0.05, 0.5, 0.4, 0.6), (0.1, 1.0, 0.9, 1.0)], "b": [(0.1, 0.0, 0.0, 0.1)]}, "T")
    root = ElementTree.fromstring(text)
    first, second = (line.attrib["points"] for line in root.iter(f"{SVG}polyline"))
    # across: 60 to 700 for 0 to 10 %; up: 290 to 44 for none to all
    assert first == "380.0,167.0 700.0,44.0"
    assert second == "700.0,290.0"
    whiskers = [line.attrib for line in root.iter(f"{SVG}line") if line.attrib.get("class") == "whisker"]
    assert (whiskers[0]["x1"], whiskers[0]["y1"], whiskers[0]["y2"]) == ("380.0", "191.6", "142.4")
    assert "quiet <1>" in [label.text for label in root.iter(f"{SVG}text")]


def test_it_draws_no_more_lines_than_can_be_told_apart() -> None:
    with pytest.raises(ValueError, match="5 lines"):
        power_curve({str(number): [(0.1, 0.5, 0.4, 0.6)] for number in range(5)}, "T")
    with pytest.raises(ValueError, match="no points"):
        power_curve({}, "T")


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(analysing, "SHAKES", 2)
    monkeypatch.setattr(analysing, "MIN_NEED_TRIALS", 5)
    return saved(tmp_path / "recording", {"quiet-default": simulated(20)}).folder


def test_the_command_writes_report_figures_and_curve(recorded: Path, tmp_path: Path) -> None:
    out = tmp_path / "report"
    assert main(["analyse", str(recorded), "--trials", "40", "--out", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["power.svg", "report.json", "report.md"]
    document = json.loads((out / "report.json").read_text())
    assert document["trials"] == 40 and document["holds"] is True
    (condition,) = document["conditions"]
    tally = condition["planted"][-1]
    assert tally["power"] == tally["right"] / 40
    assert "](power.svg)" in (out / "report.md").read_text()


def test_the_exit_code_is_one_when_verdicts_are_wrong_too_often(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysing, "ALLOWED_WRONG", -1.0)
    assert main(["analyse", str(recorded), "--trials", "10", "--out", str(tmp_path / "report")]) == 1


def test_without_a_recording_it_says_how_to_make_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyse", str(tmp_path)]) == 64
    assert "nothing is recorded in" in capsys.readouterr().err
