"""The script as it is called, without a GPU: what it says, and a dry run that holds all of it together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.gpu_check.__main__ import EXIT_NO_GPU
from benchmarks.gpu_check.summary import markdown
from kernels import measured

ROOT = Path(__file__).resolve().parents[3]
# What a machine with a GPU of its own may lack: torch and triton bring none of these.
ABSENT = ("pydantic", "openvino", "psutil", "jsonschema", "django")
WITHOUT = f"""
import runpy, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {ABSENT!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
sys.argv = ["child", "--interpreter", "--seconds", "60", *sys.argv[1:]]
runpy.run_module("benchmarks.gpu_check.child", run_name="__main__")
"""


def script(*arguments: str, timeout_s: float = 300.0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.gpu_check", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_so_and_ends_with_a_code_of_its_own() -> None:
    done = script()
    assert done.returncode == EXIT_NO_GPU == 69
    assert "There is no GPU here" in done.stderr and "Nothing was checked." in done.stderr
    assert "make gpu-check INTERPRETER=1" in done.stderr
    assert done.stdout == ""


def test_an_argument_that_makes_no_sense_is_refused() -> None:
    assert script("--kernel", "winograd", "--interpreter").returncode == 64


@pytest.fixture(scope="module")
def dry(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    pytest.importorskip("triton")
    out = tmp_path_factory.mktemp("gpu-check") / "dry.json"
    chosen = ["--kernel", "rms_norm", "--kernel", "rowwise_adagrad", "--kernel", "cross_entropy"]
    return out, script("--interpreter", "--out", str(out), *chosen)


def steps(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(out.read_text())["steps"]
    return found


def test_a_dry_run_takes_every_kind_of_step(dry: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    out, done = dry
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert {one["status"] for one in steps(out).values()} == {"passed"}
    names = ("cross_entropy", "rms_norm", "rowwise_adagrad")
    assert set(steps(out)) == {f"{verb} {name}" for verb in ("check", "tune") for name in names} | {"model din float32"}


def test_kernels_are_checked_in_each_dtype_and_configuration_and_through_torch(
    dry: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    """RMSNorm's first sample has one element: two configurations, in three dtypes, and the operation in each dtype."""
    found = steps(dry[0])["check rms_norm"]
    assert (found["cases"], found["right"], found["wrong"], found["left_out"]) == (9, 9, [], [])
    assert 0.0 <= found["worst_error_share"] <= 1.0


def test_configurations_are_timed_and_the_fastest_is_named(
    dry: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    told = steps(dry[0])["tune rms_norm"]["dtypes"]["float32"]
    times = {one["name"]: one["median_us"] for one in told["configurations"]}
    assert told["best"] == min(times, key=lambda name: times[name])
    assert told["reference"]["median_us"] > 0
    assert "roofline_share" not in told, "the interpreter has no roofline"


def test_a_model_is_fused_and_its_answers_are_right(dry: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    found = steps(dry[0])["model din float32"]
    assert any("din_attention" in site for site in found["fused"])
    ours = found["contenders"]["ours eager"]
    assert ours["error"] <= ours["allowed"] and "median_us" in ours
    assert set(found["speedups"]) == {"ours eager over eager"}


def test_the_same_call_finds_everything_done(dry: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    out, _ = dry
    before = steps(out)
    chosen = ["--kernel", "rms_norm", "--kernel", "rowwise_adagrad", "--kernel", "cross_entropy"]
    again = script("--interpreter", "--out", str(out), *chosen)
    assert again.returncode == 0 and "==>" not in again.stdout
    assert "7 steps are in the file already." in again.stdout
    assert steps(out) == before


def test_the_page_says_that_nothing_was_measured(dry: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    text = markdown(json.loads(dry[0].read_text()))
    assert "A dry run under Triton's interpreter: no GPU was there" in text
    assert "| check rms_norm | 9 of 9 | 0 | 0 | 0 |" in text
    assert "## Wrong, failed, cut or left out\n\nNone." in text


def test_a_dry_run_is_never_told_as_measured(dry: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    assert measured.of_kernel("rms_norm", dry[0].parent) == []


def test_kernels_are_checked_where_only_torch_and_triton_are_installed() -> None:
    pytest.importorskip("triton")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, "check rms_norm", "tune rms_norm", "model din float32"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    outcomes = {line["done"]: line["outcome"] for line in lines if "done" in line}
    assert [outcomes[step]["status"] for step in ("check rms_norm", "tune rms_norm")] == ["passed", "passed"]
    assert outcomes["model din float32"]["status"] == "left_out"
    assert "pydantic" in outcomes["model din float32"]["reason"]
