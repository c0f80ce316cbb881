"""`fuseworks diagnose` hands its files on to the optimizer, which prints the answer."""

from __future__ import annotations

import json

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
