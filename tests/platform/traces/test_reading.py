"""From a diagnosis to what a page shows of it: figures with units, filters, the timeline's paths."""

from __future__ import annotations

from typing import Any

import pytest

from fuseworks.traces.reading import compared, facts, findings
from fuseworks.traces.reading.drawing import picture
from fuseworks.traces.reading.figures import figure
from fuseworks.traces.reading.parts import kind_of, parts_of
from optimizer.coordinator.diagnose import diagnosed
from optimizer.diagnosing.traces.document import Timeline
from optimizer.result import Finding, TracedRank
from tests.platform.traces import support


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("gpu_busy_share", 0.8312, "83.1 %"),
        ("softmax_share_of_compute", 0.5, "50.0 %"),
        ("span_ms", 41.5, "41.5 ms"),
        ("synchronization_ms_per_step", 1.25, "1.25 ms"),
        ("launch_delay_us", 4.0, "4.00 µs"),
        ("memcpy_bytes", 4 << 20, "4.00 MiB"),
        ("peers_best_bytes_per_s", 3 << 30, "3.00 GiB/s"),
        ("kernels", 12345, "12,345"),
        ("synchronizations_per_step", 2.5, "2.50"),
        ("optimizer_fused", False, "no"),
        ("device_names", ["A100", "V100"], "A100, V100"),
        ("kernel_kind_share", {"copy": 0.25, "gemm": 0.5, "cat": None}, "gemm 50.0 %, copy 25.0 %"),
        ("ops_per_step", {f"op{n}": n for n in range(13)}, ", ".join(f"op{n} {n}" for n in range(12, 0, -1)) + " …"),
        ("world_size", None, ""),
        ("memcpy_by_kind", {}, ""),
    ],
)
def test_a_figure_is_told_in_the_unit_of_its_name(name: str, value: Any, told: str) -> None:
    assert figure(name, value) == told


def test_every_fact_of_a_trace_has_a_name_for_readers_and_nothing_is_left_out() -> None:
    found = support.slow().facts
    groups = facts.groups(found)
    assert [str(group.title) for group in groups] == [str(title) for title, _labels in facts.GROUPS]
    shown = {fact.name for group in groups for fact in group.facts}
    assert {name for name, value in found.items() if figure(name, value)} == shown
    assert [fact.text for fact in groups[0].facts if fact.name == "steps"] == ["4"]


def test_a_fact_that_nobody_named_is_shown_by_its_own_name() -> None:
    (group,) = facts.groups({"new_thing_ms": 2})
    assert [(str(group.title), fact.label, fact.text) for fact in group.facts] == [
        ("More", "new thing ms", "2.00 ms"),
    ]


def test_a_cause_is_of_the_kind_of_which_it_takes_most() -> None:
    def kind(takes_ms: dict[str, float]) -> str:
        return kind_of(Finding(rule="r", severity="low", title="t", takes_ms=takes_ms))

    assert kind({}) == "other"
    assert kind({"idle: launching": 3, "kernels: gemm": 2}) == "idle"
    assert kind({"idle: launching": 1, "kernels: gemm": 2}) == "kernels"
    assert kind({"exposed communication": 2}) == "communication"
    assert parts_of(["idle: queued", "kernels: gemm", "kernels: memcpy", "exposed communication"]) == {
        "queued", "compute", "copies", "communication",
    }  # fmt: skip


def test_findings_are_narrowed_by_severity_kind_and_rank() -> None:
    diagnosis = support.two_ranks()
    rows = findings.rows(diagnosis)

    def rules(**query: str) -> list[str]:
        asked = findings.Asked.of(query, diagnosis)
        return [row.finding.rule for row in findings.fitting(rows, asked, diagnosis)]

    assert [row.place for row in rows] == list(range(1, len(rows) + 1))
    assert rules()[0] == "data_loading" == rules(severity="high")[0]
    assert "data_loading" in rules(kind="idle") and "data_loading" not in rules(kind="kernels")
    assert "data_loading" in rules(rank="1") and "data_loading" not in rules(rank="0")
    # what makes no sense asks for nothing
    assert rules(severity="worst", kind="7", rank="2") == rules() == rules(rank="-1")


def test_evidence_that_is_a_table_of_figures_is_drawn() -> None:
    told = {"kernels_ms": {"copy": 1.0, "gemm": 4.0}, "steps": 3, "sources": {"a.py:3": 2}, "nothing": [], "note": "so"}
    found = findings.evidence(Finding(rule="r", severity="low", title="t", evidence=told))
    assert [(one.name, one.text, one.bars) for one in found] == [
        ("kernels_ms", "", [("gemm", "4.00 ms", 1.0), ("copy", "1.00 ms", 0.25)]),
        ("steps", "3", []),
        ("sources", "", [("a.py:3", "2", 1.0)]),
        ("note", "so", []),
    ]


def test_a_timelines_parts_lie_on_one_another() -> None:
    line = Timeline(
        bin_ms=2.0, compute=[1.0, 0.5, 0.5, 0.0], communication=[0.0] * 4, copies=[0.0] * 4,
        idle={"launching": [0.0, 0.5, 0.5, 0.25]},
    )  # fmt: skip
    found = picture(TracedRank(trace="t", rank=3, facts={}, timeline=line), {"launching"})
    assert found is not None
    assert (found.width, found.span_ms, found.rank) == (4, 8.0, 3)
    assert [(part.name, part.share, part.is_dim) for part in found.parts] == [
        ("compute", 0.5, True), ("launching", 0.3125, False),
    ]  # fmt: skip
    # 100 is the bottom; equal neighbours are one rectangle
    assert found.parts[0].path == "M0 0H1V100H0zM1 50H3V100H1z"
    assert found.parts[1].path == "M1 0H3V50H1zM3 75H4V100H3z"


def test_there_is_no_picture_without_a_gpu() -> None:
    assert picture(TracedRank(trace="t", rank=None, facts={})) is None


def test_the_largest_differences_are_shown_each_with_its_bar() -> None:
    after, before = support.read("after.json", waits_for_data=True), support.read("before.json")
    operations, kernels = compared.tables(diagnosed(["after.json"], [after], [before]))
    first = operations.rows[0]
    assert (first.row.name, first.bar, first.is_slower) == ("(idle: data loading)", 1.0, True)
    assert first.row.difference_ms == pytest.approx(2.0, abs=0.05)
    assert kernels.name == "kernels" and operations.left_out == 0
    assert compared.tables(support.slow()) == []
