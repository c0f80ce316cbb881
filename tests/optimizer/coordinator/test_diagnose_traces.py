"""The run of purpose `diagnose`: its events, its result document, and what is refused."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from optimizer.coordinator.run import execute
from optimizer.result import Event, Result
from optimizer.spec import Purpose, RunSpec
from tests.optimizer.diagnosing.traces.plants import PLANTS
from tests.optimizer.diagnosing.traces.training import Training


def trace(folder: Path, name: str, *, rank: int = 0, waits: bool = False) -> Path:
    plant = PLANTS["data_loading"]
    training = Training(rank=rank)
    return (training.run(lambda one: plant(one, 2000)) if waits else training.run()).write(folder / name)


def worked(folder: Path, model: Path, **fields: object) -> tuple[Result, list[Event]]:
    events: list[Event] = []
    fields = {"purpose": Purpose.DIAGNOSE, "trusted": True, "out": str(folder / "out"), **fields}
    return execute(RunSpec(model=str(model), **fields), events.append), events  # type: ignore[arg-type]


def test_it_leaves_facts_and_findings_in_the_result(tmp_path: Path) -> None:
    result, events = worked(tmp_path, trace(tmp_path, "slow.json.gz", waits=True))
    assert (result.status, result.problem, result.artifacts) == ("succeeded", None, [])
    assert result.diagnosis is not None
    assert (result.diagnosis.of, result.diagnosis.facts["steps"]) == (["slow.json.gz"], 4)
    first = result.diagnosis.findings[0]
    assert (first.rule, set(first.takes_ms)) == ("data_loading", {"idle: data_loading"})
    assert sum(first.takes_ms.values()) == pytest.approx(first.cost_ms, abs=0.01)
    assert result.summary == result.diagnosis.summary
    assert Result.model_validate_json((tmp_path / "out" / "result.json").read_text()) == result
    told = [event for event in events if event.kind == "diagnosing"]
    assert [(event.message.partition(":")[0], event.done, event.total) for event in told] == [
        ("Reading 1 trace", None, None),
        ("Read slow.json.gz", 1, 1),
    ]


def test_ranks_and_the_traces_before_are_counted_as_they_are_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "after.zip", "w") as archive:
        for rank in (0, 1):
            archive.write(trace(tmp_path, f"rank{rank}.json", rank=rank), f"rank{rank}.json")
    before = trace(tmp_path, "before.json", waits=True)
    result, events = worked(tmp_path, tmp_path / "after.zip", against=str(before))
    assert result.diagnosis is not None and result.diagnosis.comparison is not None
    assert [rank.rank for rank in result.diagnosis.ranks] == [0, 1]
    assert result.diagnosis.comparison.base == ["before.json"]
    assert [(event.done, event.total) for event in events if event.done] == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("name", "text", "id_"),
    [
        ("notes.txt", "of last night", "diagnosing:user:no-trace"),
        ("other.json", '{"answer": 42}', "diagnosing:user:foreign"),
        ("cut.json", '{"traceEvents": [{"ph": "X",', "diagnosing:user:cut-off"),
    ],
)
def test_what_is_no_trace_is_the_users_fault_and_named(tmp_path: Path, name: str, text: str, id_: str) -> None:
    (tmp_path / name).write_text(text)
    result, _ = worked(tmp_path, tmp_path / name)
    assert (result.status, result.diagnosis) == ("failed", None)
    assert result.problem is not None and (result.problem.id, result.problem.place) == (id_, name)
    assert "export_chrome_trace" in result.problem.remedy


def test_in_the_sandbox_the_result_says_which(tmp_path: Path) -> None:
    result, _ = worked(tmp_path, trace(tmp_path, "t.json"), trusted=False)
    assert result.sandbox in ("bubblewrap", "landlock")
