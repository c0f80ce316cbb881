"""The Markdown report: facts with units, findings in their order, and nothing of a stranger's that is markup."""

from __future__ import annotations

import pytest

from optimizer.diagnosing.diagnosis import Diagnosis
from optimizer.diagnosing.exporting import FORMATS, diagnosis_of, export
from optimizer.diagnosing.exporting.figures import told
from optimizer.diagnosing.exporting.markdown_text import code, text
from optimizer.diagnosing.traces.comparing import ComparedRow, TraceComparison
from optimizer.diagnosing.traces.stragglers import RankWait
from tests.optimizer.diagnosing.exporting.answers import BUSIEST, FAILED, LOOKUPS, WAITS, diagnosis
from tests.optimizer.reporting.sample import document, result


def report(answer: Diagnosis) -> str:
    return export(answer, "markdown")


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("span_ms", 1231.5, "1,231.50 ms"),
        ("launch_delay_us", 7.25, "7.25 us"),
        ("gpu_busy_share", 0.3561, "35.6%"),
        ("kernels_under_10us_share", 0.5, "50.0%"),
        ("memcpy_bytes", 3 << 20, "3.0 MiB"),
        ("best_bytes_per_s", 12 << 30, "12.0 GiB/s"),
        ("kernels", 6080, "6,080"),
        ("ops_per_step", {"aten::mm": 3, "aten::add": 2.5}, "aten::mm 3, aten::add 2.50"),
        ("waited_ms", {"a": 1.0}, "a 1.00 ms"),
        ("optimizer_fused", False, "no"),
        ("device_names", ["A100", "V100"], "A100, V100"),
        ("optimizer_fused", None, ""),
        ("sources", {}, ""),
        ("table", {str(i): i for i in range(9)}, "0 0, 1 1, 2 2, 3 3, 4 4, 5 5 and 3 more"),
    ],
)
def test_a_figure_has_the_unit_of_its_name(name: str, value: object, shown: str) -> None:
    assert told(name, value) == shown


def test_facts_and_findings_stand_in_their_order_with_evidence_cost_and_remedy() -> None:
    found = report(diagnosis(LOOKUPS, BUSIEST))
    lines = found.splitlines()
    assert lines[0] == "# Diagnosis of `din.py`"
    assert "| `span_ms` | 1,231.50 ms |" in lines and "| `gpu_busy_share` | 35.6% |" in lines
    assert "`world`" not in found, "what is not known is left out"
    assert lines.index("### 1. 12 embedding lookups a call, at din.py:7") < lines.index(
        "### 2. linear takes 60% of the time"
    )
    assert "- `table_bytes`: 3.0 MiB" in lines and "- `sources`: din.py:7, din.py:9" in lines
    assert "It costs 25.0% of the time (1.50 ms); mending gives back 12.5% beyond the findings above." in lines
    assert "Predicted when mended: 1.05x to 1.20x as fast. Model: one lookup in place of tens." in lines
    assert lines[lines.index("Remedy:") + 2 :][:2] == ["1. Merge them.", "2. Or batch them."]


def test_conditions_and_notes_are_told() -> None:
    lines = report(diagnosis()).splitlines()
    assert "- batch is dynamic" in lines
    assert "| `libraries.torch` | 2.13.0 |" in lines and "| `sandbox` | bubblewrap |" in lines
    assert not any(line.startswith("## What holds it back") for line in lines)


def test_ranks_and_a_comparison_are_tables() -> None:
    wait = {"collectives": 9, "in_collectives_ms": 5.0, "last_to_arrive": 2, "late_ms": 4.0, "slow_ms": 0.0}
    waits = [RankWait(trace="r0", rank=0, waited_ms=1.5, **wait), RankWait(trace="r|1", rank=None, waited_ms=0, **wait)]
    row = ComparedRow(
        name="aten::mm", status="changed", base_ms=2, ms=3, difference_ms=1, base_calls=1, calls=1, explains_share=1.0
    )
    compared = TraceComparison(
        base=["b.json"], of=["a.json"], base_step_ms=2, step_ms=3, difference_ms=1, by="gpu", rows=[row], kernels=[]
    )
    lines = report(diagnosis(WAITS, waits=waits, comparison=compared)).splitlines()
    assert "| rank 0 | 1.50 ms | 2 | 4.00 ms |" in lines and r"| r\|1 | 0.00 ms | 2 | 4.00 ms |" in lines
    assert "| `aten::mm` | changed | 2.000 ms | 3.000 ms | +1.000 ms | +100.0% |" in lines


def test_a_problem_stands_where_a_summary_would() -> None:
    found = report(diagnosis(problem=FAILED, summary="", facts={}))
    assert "**Not diagnosed** at `din.py:12`: The graph breaks." in found
    assert "Take the print out." in found


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("<b>x</b>", r"\<b\>x\</b\>"),
        ("[a](b)", r"\[a\](b)"),
        ("a|b", r"a\|b"),
        ("# big", r"\# big"),
        ("at https://example.org", r"at https\://example.org"),
        ("line\nline", "line?line"),
        ("a &lt; b", r"a \&lt; b"),
    ],
)
def test_a_strangers_text_is_printed_as_it_is(given: str, shown: str) -> None:
    assert text(given) == shown


@pytest.mark.parametrize(
    ("given", "shown"), [("a", "`a`"), ("a`b", "``a`b``"), ("`a", "`` `a ``"), ("a|b", "`a¦b`"), ("", "`  `")]
)
def test_code_needs_as_many_ticks_as_it_has(given: str, shown: str) -> None:
    assert code(given) == shown


def test_a_stored_result_exports_as_its_diagnosis_does() -> None:
    answer = diagnosis_of(result(), "din.py")
    assert [finding.rule for finding in answer.findings] == ["page_faults"]
    assert answer.facts["parameters"] == 8_200_000 and answer.facts["operations"] == 9
    assert answer.facts["page_faults_per_call"] == 6568.0
    for name, one in FORMATS.items():
        assert export(answer, name) == one.write(answer, "")
    failed = diagnosis_of(result(problem=FAILED.model_dump()), "din.py")
    assert (failed.facts, failed.summary, failed.problem) == ({}, "", FAILED)


def test_a_format_that_nobody_knows_is_refused() -> None:
    with pytest.raises(KeyError):
        export(diagnosis(), "pdf")


def test_a_models_profile_is_told_with_its_cost_and_whose_memory_is_alive_at_the_peak() -> None:
    owner = {"op": "linear", "module": "a|b", "source": "din.py:41", "bytes": 6 << 20, "share": 0.75, "tensors": 2}
    memory = {"points": [], "peak_bytes": 8 << 20, "peak_at_ms": 2.5, "resident_bytes": 33 << 20, "profiled_ms": 9.0}
    profile = {**document()["profile"], "took_s": 3.25, "memory": {**memory, "owners": [owner]}}
    profile["phases"] = [{"name": "backward", "ms": 4.0, "share": 0.5}]
    lines = report(diagnosis_of(result(profile=profile), "din.py")).splitlines()
    assert "The profiler made the call 1.08 times as long, and all of the profiling took 3.2 s." in lines
    assert "| backward | 4.00 ms | 50.0% |" in lines
    assert "| `linear` | `attention.0` | `din.py:41` | 4.40 ms | 55.0% | 72.0% |" in lines
    assert "| `embedding` |  |  | 1.10 ms | 14.0% |  |" in lines
    assert "At its peak, 2.50 ms after it began, a call holds 8.0 MiB; 33.0 MiB are there all the" in lines
    assert "| `linear` | `a¦b` | `din.py:41` | 6.0 MiB | 75.0% |" in lines
