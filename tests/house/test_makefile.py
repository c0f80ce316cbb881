"""The Makefile's targets: all listed, the two commands of the README among them, and nothing that needs root."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Makefile").read_text()
UNLISTED = {"setup-test"}


def make(*arguments: str) -> str:
    return subprocess.run(["make", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):(?!=)", TEXT, re.MULTILINE))


def test_help_is_what_make_alone_does() -> None:
    assert make() == make("help")


def test_help_lists_every_target() -> None:
    listed = set(re.findall(r"^  make (\S+)", make("help"), re.MULTILINE))
    assert listed == targets() - UNLISTED


def test_no_target_is_taken_for_a_file() -> None:
    (phony,) = re.findall(r"^\.PHONY: (.*)$", TEXT, re.MULTILINE)
    assert set(phony.split()) == targets()


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"])
def test_documents_name_only_targets_that_exist(document: str) -> None:
    named = set(re.findall(r"`make ([a-z-]+)", (ROOT / document).read_text()))
    assert named <= targets()


def test_the_demo_optimizes_din_on_the_platform_and_ends_when_told() -> None:
    plan = make("-n", "demo", "EXIT=1")
    assert "scripts/set_up.py" in plan
    assert "-m fuseworks.embedded --port 8000 --demo examples/din.py" in plan
    assert "--out out/demo" in plan
    assert "--out out/demo --exit" in plan
    assert "--trusted" not in plan


def test_without_exit_the_demo_leaves_the_dashboard_open() -> None:
    assert "--exit" not in make("-n", "demo")


def test_run_starts_the_platform_alone() -> None:
    plan = make("-n", "run", "PORT=8765")
    assert "-m fuseworks.embedded --port 8765" in plan
    assert "--demo" not in plan


def test_the_tests_leave_out_what_takes_minutes() -> None:
    assert '-m "not slow and not whole" tests' in make("-n", "test")
    assert '-m "whole and not slow"' in make("-n", "test-whole")


def test_the_benchmark_runs_examples_and_suite_and_its_short_form_four_models() -> None:
    plan = make("-n", "bench", "LANE=bf16", "RESUME=1", "RESULTS=somewhere")
    assert "-m fuseworks_client bench --lane bf16 --resume" in plan
    assert " examples/din.py " in plan and " benchmarks/models " in plan and "--out somewhere" in plan
    short = make("-n", "bench-quick")
    models = ["examples/din.py", "examples/mmoe.py", "examples/dlrm.py", "examples/dcn_v2.py"]
    assert re.findall(r"examples/\w+\.py", short) == models
    assert "--resume" not in short


def test_ci_checks_first_so_that_pytest_has_the_last_word() -> None:
    steps = re.findall(r"^make (\S+)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert steps[-2:] == ["check", "test"]
    assert "test-whole" in steps, "what `make test` leaves out is left out nowhere"
