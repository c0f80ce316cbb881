"""The comparison page of a run whose workload limits something, and of one that time cut off."""

from __future__ import annotations

import pytest

from fuseworks.runs.models import Run
from tests.platform.results.support import document, finished_run
from tests.platform.results.test_comparison_page import address, reader, text

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    return finished_run(document("din"))


def test_the_workloads_limits_stand_with_who_keeps_them(run):
    assert "Are the workload's limits kept?" not in text(reader(run), address(run)).replace("&#x27;", "'")
    limits = [
        {"name": "latency_ms", "limit": 6.0, "winner": 7.25, "winner_kept": False, "baseline": 5.5, "baseline_kept": 1},
        {"name": "peak_memory_bytes", "limit": 3 << 20},
    ]
    page = text(reader(run), address(finished_run({**document("din"), "limits": limits}, run.version)))
    assert "99th percentile of a call's latency 6.00 ms 7.25 ms not kept 5.50 ms kept" in page
    assert "Peak memory 3.00 MiB – –" in page


def test_a_verdict_that_time_cut_off_is_told_with_that_reason(run):
    cut = document("din")
    reason = "only 3 of the 6 pairs that a verdict needs fitted into the time"
    cut["comparisons"] = [{**one, "verdict": "cannot_tell", "reason": reason} for one in cut["comparisons"]]
    assert reason in text(reader(run), address(finished_run({**cut, "verdict": "cannot_tell"}, run.version)))
