"""`fuseworks diagnose` hands its files on to the optimizer, which prints the answer."""

from __future__ import annotations

import json

import pytest

from fuseworks_client.commands.diagnose import FORMATS
from optimizer.diagnosing import exporting
from tests.client.conftest import Command


def test_files_and_flags_are_handed_on(fuseworks: Command) -> None:
    for name in ("a.json", "b.json", "-c.json"):
        fuseworks.model("{}", name)
    done = fuseworks("diagnose", "a.json", "--json", "--against", "b.json", "--trusted", "--", "-c.json")
    assert done.returncode == 0
    handed = ["diagnose", "--json", "--trusted", "--against=b.json", "--", "a.json", "-c.json"]
    assert json.loads(done.stdout) == handed


def test_the_exit_code_is_the_optimizers(fuseworks: Command) -> None:
    fuseworks.model("{}", "a.json")
    assert [fuseworks("diagnose", "a.json", FAKE_CODE=code).returncode for code in ("4", "64", "3", "77")] == [
        4,
        64,
        3,
        3,
    ]


def test_a_file_that_is_not_there_makes_no_sense(fuseworks: Command) -> None:
    done = fuseworks("diagnose", "none.json")
    assert done.returncode == 64
    assert "none.json" in done.stderr


def test_without_a_file_it_makes_no_sense(fuseworks: Command) -> None:
    assert fuseworks("diagnose").returncode == 64


@pytest.mark.parametrize("form", ["sarif", "markdown", "json"])
def test_a_format_is_handed_on(fuseworks: Command, form: str) -> None:
    fuseworks.model("{}", "a.json")
    done = fuseworks("diagnose", "a.json", "--format", form)
    assert json.loads(done.stdout) == ["diagnose", f"--format={form}", "--", "a.json"]


def test_the_formats_are_those_that_the_optimizer_writes() -> None:
    assert set(FORMATS) == {"text", *exporting.FORMATS}


def test_two_formats_at_once_make_no_sense(fuseworks: Command) -> None:
    fuseworks.model("{}", "a.json")
    assert fuseworks("diagnose", "a.json", "--json", "--format", "sarif").returncode == 64
    assert fuseworks("diagnose", "a.json", "--format", "pdf").returncode == 64


def test_where_to_write_a_trace_is_handed_on(fuseworks: Command) -> None:
    fuseworks.model("x = 1", "a.py")
    done = fuseworks("diagnose", "a.py", "--trace", "out.json")
    assert json.loads(done.stdout) == ["diagnose", "--trace=out.json", "--", "a.py"]
