"""What a step makes of cases that are right, wrong, refused by the device, or not reached."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

from benchmarks.gpu_check import kernel_steps
from benchmarks.gpu_check.clock import Clock, WallClock
from benchmarks.gpu_check.kernel_steps import first_cases, further_cases, right, tune
from benchmarks.gpu_check.model_steps import error_of
from benchmarks.gpu_check.times import summary_us
from kernels import KERNELS
from kernels.aot.devices import H100
from kernels.checking import Case, Outcome, cases

NORM = KERNELS.get("rms_norm")
GOOD = Outcome(error_share=0.25, canaries_intact=True, inputs_unchanged=True, seconds=0.0)


class OutOfResources(Exception):
    """As Triton's launcher raises it, by its name."""


def judged(monkeypatch: pytest.MonkeyPatch, outcome: Any, *, seconds: float = 60.0) -> dict[str, Any]:
    """`outcome`: of a case; an exception is raised."""

    def check(case: Case, device: str) -> Outcome:
        found = outcome(case)
        if isinstance(found, Exception):
            raise found
        return found  # type: ignore[no-any-return]

    monkeypatch.setattr(kernel_steps, "check", check)
    return right(NORM, first_cases(NORM), "cpu", time.monotonic() + seconds, operation=False)


def test_first_and_further_cases_are_all_and_each_once() -> None:
    names = [case.name for case in (*first_cases(NORM), *further_cases(NORM))]
    assert sorted(names) == sorted(case.name for case in cases(NORM))
    assert further_cases(NORM)[0].edge and not first_cases(NORM)[0].edge


def test_all_right(monkeypatch: pytest.MonkeyPatch) -> None:
    found = judged(monkeypatch, lambda case: GOOD)
    assert (found["status"], found["right"], found["worst_error_share"]) == ("passed", found["cases"], 0.25)


def test_one_wrong_element_makes_the_step_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = Outcome(error_share=float("inf"), canaries_intact=True, inputs_unchanged=True, seconds=0.0)
    found = judged(monkeypatch, lambda case: bad if case.dtype == torch.float16 else GOOD)
    assert found["status"] == "wrong" and found["worst_error_share"] is None
    assert all(one["case"].startswith("float16") for one in found["wrong"])


def test_a_configuration_that_the_device_refuses_is_told_and_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    first = first_cases(NORM)[0].configuration
    refusal = OutOfResources("shared memory")
    found = judged(monkeypatch, lambda case: refusal if case.configuration == first else GOOD)
    assert found["status"] == "passed" and len(found["refused"]) == 3
    assert found["refused"][0]["error"] == "OutOfResources: shared memory"


def test_a_dtype_of_which_every_configuration_is_refused_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = RuntimeError("PassManager::run failed")
    found = judged(monkeypatch, lambda case: refusal if case.dtype == torch.bfloat16 else GOOD)
    assert found["status"] == "wrong"
    assert found["wrong"] == [{"case": "bfloat16", "fault": "the device refuses every configuration that was tried"}]


def test_what_else_is_raised_ends_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="illegal"):
        judged(monkeypatch, lambda case: RuntimeError("CUDA error: an illegal memory access"))


def test_what_is_not_reached_in_time_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = judged(monkeypatch, lambda case: GOOD, seconds=-1.0)
    assert found["status"] == "cut" and found["right"] == 0
    assert found["left_out"] == [case.name for case in first_cases(NORM)]


class Stopped(Clock):
    """A clock on which each call takes 2 µs."""

    def times_us(self, call: Any, *, limit_s: float = 0.1, cold: bool = True) -> list[float]:
        return [2.0, 2.0, 2.0]

    def wait(self) -> None:
        """Nothing runs."""


def test_the_share_of_the_roofline_is_the_bound_over_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """RMSNorm of one float32 value, read and written beside its weight: 12 bytes at 3.352 TB/s, over 2 µs."""
    monkeypatch.setattr("kernels.spec.Launch.run", lambda self: None)
    told = tune(NORM, "cpu", H100, Stopped(), time.monotonic() + 60)["dtypes"]["float32"]
    assert told["bytes"] == 12
    assert told["bound_us"] == pytest.approx(12 / 3.352e12 * 1e6)
    assert told["roofline_share"] == pytest.approx(told["bound_us"] / 2.0)
    assert told["gigabytes_per_s"] == pytest.approx(12 / 2e-6 / 1e9)


def test_configurations_that_are_refused_have_no_times(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any) -> None:
        raise OutOfResources("registers")

    monkeypatch.setattr("kernels.spec.Launch.run", refuse)
    told = tune(NORM, "cpu", H100, Stopped(), time.monotonic() + 60)["dtypes"]["float32"]
    assert "best" not in told and "roofline_share" not in told
    assert all(one["refused"] == "OutOfResources: registers" for one in told["configurations"])


def test_dtypes_that_are_not_reached_are_named() -> None:
    found = tune(NORM, "cpu", None, Stopped(), time.monotonic() - 1)
    assert (found["status"], found["left_out"]) == ("cut", ["bfloat16", "float32", "float16"])


@pytest.mark.parametrize(
    ("code", "uses"),
    [
        ("  wgmma.mma_async.sync.aligned.m64n64k16", True),
        ("  mma.sync.aligned.m16n8k16.row.col", True),
        ("  tcgen05.mma.cta_group::1.kind::f16", True),
        ("  v_mfma_f32_32x32x8_bf16_1k a[0:15]", True),
        ("  fma.rn.f32 %f1, %f2; // /home/emma/kernels.py", False),
    ],
)
def test_tensor_cores_are_seen_in_the_compiled_code(code: str, uses: bool) -> None:
    assert (kernel_steps._MATRIX_INSTRUCTION.search(code) is not None) is uses


def test_an_answers_error_is_relative_to_its_spread() -> None:
    """Spread around the mean of 2: sqrt(2); off by 0.1 in one place."""
    want = torch.tensor([1.0, 3.0])
    assert error_of(torch.tensor([1.1, 3.0]), want) == pytest.approx(0.1 / 2**0.5, rel=1e-5)
    assert error_of(torch.tensor([float("nan"), 3.0]), want) == float("inf")


def test_times_are_told_by_their_median_and_ends() -> None:
    assert summary_us([5.0, 1.0, 3.0]) == {"median_us": 3.0, "p10_us": 1.0, "p90_us": 5.0, "calls": 3}


def test_the_wall_clock_calls_what_it_times() -> None:
    calls: list[int] = []
    times = WallClock().times_us(lambda: calls.append(1))
    assert len(times) == len(calls) == 2 and all(time >= 0 for time in times)
