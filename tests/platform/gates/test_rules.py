"""The rule of a gate, at its edges, and the exit codes."""

from __future__ import annotations

import pytest

from fuseworks.gates.models import GateCheck, Outcome
from fuseworks.gates.rules import exit_code, outcome_of
from fuseworks.runs.models import Run


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (0.90, 1.00, Outcome.PASS),
        (1.01, 1.05, Outcome.PASS),  # the upper end may touch the limit
        (1.01, 1.0501, Outcome.CANNOT_TELL),
        (1.05, 1.20, Outcome.CANNOT_TELL),  # the lower end is not above it yet
        (1.0501, 1.20, Outcome.FAIL),
        (0.50, 2.00, Outcome.CANNOT_TELL),
        (1.05, 1.05, Outcome.PASS),
    ],
)
def test_the_interval_decides_against_a_limit_of_1_05(low: float, high: float, outcome: Outcome):
    assert outcome_of(low, high, 1.05) == outcome


@pytest.mark.parametrize(
    ("outcome", "status", "code"),
    [
        ("pending", "queued", None),
        ("pending", "running", None),
        ("pass", "succeeded", 0),
        ("fail", "succeeded", 1),
        ("cannot_tell", "succeeded", 2),
        ("cannot_tell", "failed", 2),  # the version before cannot be packaged: not the new one's fault
        ("no_result", "errored", 3),
        ("no_result", "timed_out", 3),
        ("no_result", "cancelled", 3),
        ("no_result", "succeeded", 3),
        ("no_result", "failed", 4),
    ],
)
def test_the_exit_code_tells_a_slow_model_from_a_broken_one_and_from_a_broken_machine(outcome, status, code):
    assert exit_code(GateCheck(run=Run(status=status), max_latency_ratio=1.05, outcome=outcome)) == code
