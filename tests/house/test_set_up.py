"""Set-up: how it recovers, when it is current, and which Python it takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import set_up  # noqa: E402  (scripts are no package: they run before anything is installed)

# ---- the choice of Python ------------------------------------------------------------------------------------------


def fake_python(folder: Path, name: str, *, fits: bool = True, has_venv: bool = True) -> None:
    """A program that answers find_python.sh's two questions."""
    script = "#!/bin/sh\n"
    script += f'case "$2" in *version_info*) exit {int(not fits)};; *ensurepip*) exit {int(not has_venv)};; esac\n'
    path = folder / name
    path.write_text(script)
    path.chmod(0o755)


def find_python(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(ROOT / "scripts" / "find_python.sh")],
        env={"PATH": str(folder), **environment},
        capture_output=True,
        text=True,
    )


def test_the_first_python_that_fits_is_taken(tmp_path: Path) -> None:
    fake_python(tmp_path, "python3", fits=False)
    fake_python(tmp_path, "python3.12")
    fake_python(tmp_path, "python3.13")
    assert find_python(tmp_path).stdout.strip() == str(tmp_path / "python3.12")


def test_a_python_that_cannot_make_environments_is_passed_over(tmp_path: Path) -> None:
    fake_python(tmp_path, "python3.11", has_venv=False)
    fake_python(tmp_path, "python3.13")
    assert find_python(tmp_path).stdout.strip() == str(tmp_path / "python3.13")


def test_it_will_do_when_uv_can_make_the_environment(tmp_path: Path) -> None:
    fake_python(tmp_path, "python3.11", has_venv=False)
    fake_python(tmp_path, "uv")
    assert find_python(tmp_path).stdout.strip() == str(tmp_path / "python3.11")


def test_else_the_refusal_names_the_missing_package(tmp_path: Path) -> None:
    fake_python(tmp_path, "python3.11", has_venv=False)
    answer = find_python(tmp_path)
    assert answer.returncode == 1
    assert "install python3-venv" in answer.stderr


def test_a_named_python_that_does_not_fit_is_refused_with_the_versions_that_do(tmp_path: Path) -> None:
    fake_python(tmp_path, "python3.11")
    fake_python(tmp_path, "old", fits=False)
    answer = find_python(tmp_path, PYTHON="old")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "needs Python 3.11, 3.12 or 3.13" in answer.stderr


# ---- when it is current, and what an accident leads to -------------------------------------------------------------


@pytest.fixture
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for .venv; a made one runs for as long as `alive` stands in it."""
    folder = tmp_path / ".venv"
    monkeypatch.setattr(set_up, "VENV", folder)
    monkeypatch.setattr(set_up, "VENV_PYTHON", folder / "bin" / "python")
    monkeypatch.setattr(set_up, "STAMP", folder / "stamp.json")
    monkeypatch.setattr(set_up, "UNFINISHED", folder / "unfinished")
    monkeypatch.setattr(set_up, "runs", lambda python: (folder / "alive").exists())
    return folder


@pytest.fixture
def calls(venv: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What set-up would run; `python -m venv` makes the folder."""
    seen: list[list[str]] = []

    def run(command: list[object], **options: object) -> None:
        seen.append([str(part) for part in command])
        if "venv" in seen[-1]:
            venv.mkdir()
            (venv / "alive").touch()

    monkeypatch.setattr(set_up.subprocess, "run", run)
    return seen


@pytest.fixture
def installs(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    seen: list[set[str]] = []
    monkeypatch.setattr(set_up, "install", seen.append)
    return seen


@pytest.mark.usefixtures("calls")
def test_a_second_set_up_does_nothing(installs: list[set[str]]) -> None:
    set_up.set_up({"demo"})
    set_up.set_up({"demo"})
    assert installs == [{"demo"}]


@pytest.mark.usefixtures("calls")
def test_the_tests_packages_are_added_and_stay(installs: list[set[str]]) -> None:
    set_up.set_up({"demo"})
    set_up.set_up({"demo", "test"})
    set_up.set_up({"demo"})
    assert installs == [{"demo"}, {"demo", "test"}]


def test_another_lock_brings_the_environment_up_to_date_without_making_it_anew(
    calls: list[list[str]], installs: list[set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up.set_up({"demo", "test"})
    monkeypatch.setattr(set_up, "key", lambda: "another")
    set_up.set_up({"demo"})
    assert len(installs) == 2
    assert sum("venv" in call for call in calls) == 1


@pytest.mark.usefixtures("calls")
@pytest.mark.parametrize("accident", ["interrupted", "moved", "python gone", "stamp torn"])
def test_after_an_accident_it_is_made_anew(accident: str, venv: Path, installs: list[set[str]]) -> None:
    set_up.set_up({"demo"})
    (venv / "left over").touch()
    if accident == "interrupted":
        (venv / "unfinished").touch()
    elif accident == "moved":
        stamp = json.loads((venv / "stamp.json").read_text())
        (venv / "stamp.json").write_text(json.dumps({**stamp, "key": "another", "root": "/elsewhere"}))
    elif accident == "python gone":
        (venv / "alive").unlink()
    else:
        (venv / "stamp.json").write_text('{"key": ')
    set_up.set_up({"demo"})
    assert len(installs) == 2
    assert not (venv / "left over").exists()
    assert not (venv / "unfinished").exists()


@pytest.mark.usefixtures("calls")
def test_a_failed_install_is_remembered(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(groups: set[str]) -> None:
        raise subprocess.CalledProcessError(1, ["pip"])

    monkeypatch.setattr(set_up, "install", fails)
    with pytest.raises(subprocess.CalledProcessError):
        set_up.set_up({"demo"})
    assert (venv / "unfinished").exists()
    assert not (venv / "stamp.json").exists()


def test_lint_settings_do_not_make_it_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(set_up, "ROOT", tmp_path)
    (tmp_path / "requirements.lock").write_text("a==1\n")
    text = (ROOT / "pyproject.toml").read_text()
    (tmp_path / "pyproject.toml").write_text(text)
    before = set_up.key()
    (tmp_path / "pyproject.toml").write_text(text.replace("line-length = 120", "line-length = 100"))
    assert set_up.key() == before
    (tmp_path / "pyproject.toml").write_text(text.replace('"click>=8.3,<9"', '"click>=8.4,<9"'))
    assert set_up.key() != before
    (tmp_path / "pyproject.toml").write_text(text)
    (tmp_path / "requirements.lock").write_text("a==2\n")
    assert set_up.key() != before
