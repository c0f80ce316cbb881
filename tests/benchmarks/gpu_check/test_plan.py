"""The order of the steps, and who may run beside whom."""

from __future__ import annotations

from benchmarks.gpu_check.model_steps import MODELS as FILES
from benchmarks.gpu_check.model_steps import ROOT
from benchmarks.gpu_check.plan import BUDGET_S, MODELS, phases, workers_for


def test_every_kernel_is_checked_before_any_is_timed_and_models_come_after() -> None:
    steps = [step for phase in phases(["small", "large"], dry=False) for step in phase.steps]
    assert steps[:4] == ["check small", "check large", "tune small", "tune large"]
    assert steps[4:8] == [f"model {name} float32" for name in MODELS]
    assert steps[8:] == ["edges small", "edges large", *[f"model {name} bfloat16" for name in MODELS]]


def test_it_takes_at_most_eight_minutes_and_each_phase_ends_later_than_the_one_before() -> None:
    ends = [phase.until for phase in phases(["a"], dry=False)]
    assert BUDGET_S <= 8 * 60
    assert ends == sorted(ends) and ends[-1] == 1.0


def test_what_measures_runs_alone() -> None:
    for phase in phases(["a"], dry=False):
        measures = phase.steps[0].startswith(("tune", "model"))
        assert phase.alone is measures
        assert workers_for(phase, 16) == (1 if measures else 8)
        assert workers_for(phase, 1) == 1


def test_the_four_models_are_examples_that_are_there() -> None:
    assert set(MODELS) == set(FILES)
    assert all((ROOT / "examples" / name).is_file() for name in FILES.values())
