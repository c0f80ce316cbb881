"""The demo without anybody in whose name it could upload: it says what is missing, what to do, and ends with 3."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fuseworks.embedded import __main__ as entry
from fuseworks.embedded.demo import NoSampleTeams, sample_member
from fuseworks.embedded.installation import Installation

MEMBER = {"email": "a@example.com", "team": "ads-ranking", "token": "fw_x"}


class Started:
    """Stands in for the supervisor: no process is started."""

    def __init__(self, installation: Installation) -> None:
        self.stopped = False

    def start(self) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def own_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql:///of-ones-own")
    monkeypatch.setenv("REDIS_URL", "redis://somewhere")


def test_a_member_of_the_sample_teams_is_who_uploads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Installation(tmp_path, port=8000, workers=1)
    monkeypatch.setattr(here, "manage", lambda *words: "made\nsample teams\n" if words[0] == "samples" else "")
    here.postgres = None
    (tmp_path / "sign-in.json").write_text(json.dumps({"demo": MEMBER, "password": "p", "people": []}))
    here.prepare()
    assert sample_member(here) == MEMBER


@pytest.mark.parametrize("is_there", [True, False], ids=["of another database", "lost"])
@pytest.mark.usefixtures("own_database")
def test_a_database_of_ones_own_has_no_sample_member_whatever_the_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    if is_there:
        (tmp_path / "sign-in.json").write_text(json.dumps({"demo": MEMBER, "password": "p", "people": []}))
    here = Installation(tmp_path, port=8123, workers=1)
    monkeypatch.setattr(here, "manage", lambda *words: "no sample teams\n" if words[0] == "samples" else "")
    here.prepare()
    with pytest.raises(NoSampleTeams) as caught:
        sample_member(here)
    said = str(caught.value)
    assert "the database of DATABASE_URL has accounts of its own" in said and str(tmp_path / "sign-in.json") in said
    assert "unset DATABASE_URL, or name an empty database" in said
    assert "FUSEWORKS_URL=http://127.0.0.1:8123" in said and "fuseworks submit" in said
    assert here.how_to_sign_in() == "    Sign in with an account of your own (this installation has no sample teams)."


def test_an_installation_whose_file_is_lost_is_told_another_folder(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    with pytest.raises(NoSampleTeams) as caught:
        sample_member(Installation(tmp_path, port=8000, workers=1))
    assert "FUSEWORKS_STATE=FOLDER" in str(caught.value)


@pytest.mark.usefixtures("own_database")
def test_the_command_ends_with_3_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(entry, "Supervisor", Started)
    assert entry.main(["--state", str(tmp_path), "--demo", "examples/din.py", "--exit"]) == 3
    said = capsys.readouterr().err
    assert said.startswith("==> The demo uploads as a member of a sample team")
    assert "Traceback" not in said
