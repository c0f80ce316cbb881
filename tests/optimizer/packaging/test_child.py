"""A package is tried as its user will: in a process of its own, within a time, and its words are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from optimizer.children.operations import find
from optimizer.children.session import Session
from tests.optimizer.packaging.conftest import edit_manifest


def self_test(package: Path, scratch: Path, limit_s: float = 120.0) -> dict[str, Any]:
    command = ["run.py", "--self-test", "--calls", "5"]
    request = {"package": str(package), "command": command, "limit_s": limit_s}
    fields, arrays = find("packaging.self_test")(Session(fd=-1, scratch=scratch), request, [])
    assert arrays == []
    return fields


def test_a_package_that_answers_passes(package: Path, tmp_path: Path) -> None:
    fields = self_test(package, tmp_path)
    assert fields["exit_code"] == 0
    assert json.loads(fields["told"])["check"].startswith("verified sample reproduced")


def test_a_package_that_answers_otherwise_says_so(package: Path, tmp_path: Path) -> None:
    edit_manifest(package, lambda manifest: manifest["check"].update(allowed_errors=[-1.0]))
    fields = self_test(package, tmp_path)
    assert fields["exit_code"] == 3
    assert "does not compute what was verified" in fields["told"]


def test_a_package_that_crashes_leaves_its_last_words(package: Path, tmp_path: Path) -> None:
    (package / "run.py").write_text("import sys\nsys.stderr.write('x' * 5000)\nraise RuntimeError('broken')\n")
    fields = self_test(package, tmp_path)
    assert fields["exit_code"] == 1
    assert len(fields["told"]) <= 2000 and fields["told"].endswith("RuntimeError: broken")


@pytest.mark.parametrize("limit_s", [0.5])
def test_a_package_that_does_not_end_is_ended(package: Path, tmp_path: Path, limit_s: float) -> None:
    (package / "run.py").write_text("import threading\nthreading.Event().wait()\n")
    assert self_test(package, tmp_path, limit_s) == {"exit_code": None, "told": "it did not end within 0.5 s"}
