"""Usage: help, versions, mistakes at the prompt, and the verbs that pass a question on."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.client.conftest import ROOT, Command

LOCAL = [
    "optimize",
    "apply",
    "inspect",
    "compare",
    "bench",
    "diagnose",
    "explain",
    "recipe",
    "schema",
    "kernels",
    "doctor",
]
VERBS = [*LOCAL, "login", "submit", "follow", "cancel", "package"]
RECIPE_VERBS = {
    "check": " FILE",
    "digest": " FILE",
    "show": " FILE",
    "list": "",
    "get": " RECIPE_VERSION",
    "apply": " RECIPE_VERSION MODEL_VERSION",
}


def test_help_lists_every_verb_with_examples_and_exit_codes(fuseworks: Command):
    done = fuseworks("--help")
    assert done.returncode == 0
    for verb in VERBS:
        assert f"\n  {verb} " in done.stdout
    assert "fuseworks optimize model.py" in done.stdout
    assert "64   the command makes no sense" in done.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_help_of_its_own(fuseworks: Command, verb: str):
    done = fuseworks(verb, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: fuseworks {verb} ")


def test_recipe_is_a_group_of_what_looks_at_files_and_what_uses_the_catalog(fuseworks: Command):
    listed = fuseworks("recipe", "--help").stdout
    for verb, argument in RECIPE_VERBS.items():
        assert f"\n  {verb} " in listed
        done = fuseworks("recipe", verb, "--help")
        assert done.returncode == 0
        assert done.stdout.startswith(f"Usage: fuseworks recipe {verb} [OPTIONS]{argument}\n")


def test_submit_tells_all_exit_codes_of_a_gate(fuseworks: Command):
    told = fuseworks("submit", "--help").stdout.partition("Exit codes:")[2]
    assert [line.split()[0] for line in told.strip().splitlines()] == ["0", "1", "2", "3", "4", "64", "130"]


def test_version(fuseworks: Command):
    done = fuseworks("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("fuseworks, version ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Usage"),
        (["optimise", "m.py"], "No such command"),
        (["optimize"], "Missing argument 'MODEL'"),
        (["optimize", "absent.py"], "does not exist"),
        (["optimize", "."], "is a directory"),
        (["optimize", "m.py", "--budget", "soon"], "no duration such as 300, 90s, 5m or 1h30m"),
        (["optimize", "m.py", "--budget", "0"], "no duration"),
        (["optimize", "m.py", "--precision", "int4"], "int4"),
        (["optimize", "m.py", "--threads", "0"], "0 is not in the range"),
        (["optimize", "m.py", "--workload", "m.py"], "must hold a mapping"),
        (["optimize", "m.py", "--workload", "broken.yaml"], "cannot be read"),
        (["optimize", "m.py", "--out", "m.py"], "m.py"),
        (["schema", "answer"], "answer"),
        (["recipe", "eat", "m.py"], "eat"),
    ],
)
def test_a_command_that_makes_no_sense_is_code_64_and_says_why(fuseworks: Command, arguments: list[str], words: str):
    fuseworks.model("ok", "m.py")
    (fuseworks.folder / "broken.yaml").write_text("a: [\n")
    done = fuseworks(*arguments)
    assert done.returncode == 64
    assert words in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        (["schema", "result"], ["schema", "result"]),
        (["recipe", "digest", "r.yaml"], ["recipe", "digest", "r.yaml"]),
        (["doctor", "--json"], ["doctor", "--json"]),
        (["doctor"], ["doctor"]),
        (["kernels", "--json"], ["kernels", "--json"]),
    ],
)
def test_questions_are_passed_on_and_the_answer_comes_back(fuseworks: Command, arguments: list[str], passed: list[str]):
    (fuseworks.folder / "r.yaml").write_text("x")
    done = fuseworks(*arguments)
    assert (done.returncode, json.loads(done.stdout)) == (0, passed)


@pytest.mark.parametrize(("theirs", "ours"), [("4", 4), ("64", 64), ("1", 3), ("3", 3)])
def test_the_answers_code_is_one_of_the_documented_ones(fuseworks: Command, theirs: str, ours: int):
    assert fuseworks("doctor", FAKE_CODE=theirs).returncode == ours


@pytest.mark.parametrize(("text", "expected_s"), [("300", 300.0), ("90s", 90.0), ("1.5m", 90.0), ("1h30m", 5400.0)])
def test_durations_are_read_as_people_type_them(fuseworks: Command, text: str, expected_s: float):
    fuseworks("optimize", fuseworks.model("ok"), "--out", "out", "--budget", text)
    assert json.loads((fuseworks.folder / "out" / "seen.json").read_text())["policy"]["budget_s"] == expected_s


def test_without_the_optimizer_it_says_what_is_missing(fuseworks: Command):
    done = fuseworks(
        "optimize", fuseworks.model("ok"), "--out", "out", FUSEWORKS_OPTIMIZER=f"{sys.executable} -I -S -m optimizer"
    )
    assert done.returncode == 3
    assert "The optimizer is not installed beside this command." in done.stderr


def test_the_client_imports_neither_torch_nor_django_nor_the_optimizer():
    code = (
        "import sys, fuseworks_client.cli as c; c.main(['--help'])\n"
        "wrong = {m.partition('.')[0] for m in sys.modules}\n"
        "wrong &= {'torch', 'django', 'optimizer', 'kernels', 'numpy', 'workers'}\n"
        "sys.exit(str(wrong) if wrong else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT / "client")}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
