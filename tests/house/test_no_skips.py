"""In CI a skipped test is a failed one, wherever it skips."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SKIPS = {
    "mark": "@pytest.mark.skipif(True, reason={reason!r})\ndef test_one(): ...",
    "call": "def test_one(): pytest.skip({reason!r})",
    "fixture": "@pytest.fixture\ndef tool(): pytest.skip({reason!r})\ndef test_one(tool): ...",
    "module": "pytestmark = pytest.mark.skipif(True, reason={reason!r})\ndef test_one(): ...",
    "collection": "pytest.skip({reason!r}, allow_module_level=True)",
    "import": "pytest.importorskip('no_such_module', reason={reason!r})",
}


def run(folder: Path, text: str, ci: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_one.py").write_text(f"import pytest\n{text}\ndef test_other(): ...\n")
    (folder / "pytest.ini").write_text("[pytest]\n")
    argv = [sys.executable, "-m", "pytest", "-p", "tests.no_skips", "-p", "no:django", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "FUSEWORKS_CI": ci}
    command = [*argv, "-c", "pytest.ini", *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("where", SKIPS)
def test_a_skip_fails_the_session_and_is_named_with_its_reason(tmp_path: Path, where: str) -> None:
    answer = run(tmp_path, SKIPS[where].format(reason="there is no nginx"), "1")
    assert answer.returncode in (1, 2), answer.stdout  # 2: at collection
    assert "in CI nothing is: there is no nginx" in answer.stdout
    assert "test_one.py" in answer.stdout


def test_so_it_does_below_several_workers(tmp_path: Path) -> None:
    answer = run(tmp_path, SKIPS["mark"].format(reason="there is no nginx"), "1", "-n", "2")
    assert (answer.returncode, "in CI nothing is: there is no nginx" in answer.stdout) == (1, True)


@pytest.mark.parametrize("reason", ["needs a GPU", "needs ../shared/models", "run as another user by x.py: closed"])
def test_what_ci_cannot_have_may_be_skipped(tmp_path: Path, reason: str) -> None:
    answer = run(tmp_path, SKIPS["call"].format(reason=reason), "1")
    assert answer.returncode == 0
    assert "1 passed, 1 skipped" in answer.stdout


def test_a_known_failure_is_no_skip(tmp_path: Path) -> None:
    answer = run(tmp_path, "@pytest.mark.xfail\ndef test_one(): assert 0", "1")
    assert (answer.returncode, "1 xfailed" in answer.stdout) == (0, True)


def test_elsewhere_skips_are_skips(tmp_path: Path) -> None:
    assert run(tmp_path, SKIPS["call"].format(reason="there is no nginx"), "").returncode == 0


def test_ci_says_that_it_is_ci_and_the_tests_listen() -> None:
    assert re.search(r"^export FUSEWORKS_CI=1$", (ROOT / ".ci" / "run").read_text(), re.M)
    assert "-p tests.no_skips" in (ROOT / "pyproject.toml").read_text()
