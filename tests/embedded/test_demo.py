"""The demo: through the platform to before and after (the optimizer is a stand-in). Without anybody in whose name it
could upload it says what is missing, what to do, and ends with 3."""

from __future__ import annotations

import json
import re
import signal
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fuseworks.embedded import __main__ as entry
from fuseworks.embedded.demo import NoSampleTeams, sample_member
from fuseworks.embedded.installation import Installation
from tests.browser import story_coordinator
from tests.browser.story_platform import STAND_IN
from tests.embedded.test_supervisor import READY, Platform

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


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Not pytest's own, which PostgreSQL cannot enter when root drops to nobody."""
    with tempfile.TemporaryDirectory(prefix="fuseworks-demo-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o711)
        monkeypatch.setenv(story_coordinator.FOLDER, name)
        monkeypatch.setenv("FUSEWORKS_COORDINATOR", STAND_IN)
        story_coordinator.release(Path(name), "optimize", "din")
        yield Path(name)


@pytest.mark.timeout(180)
def test_it_uploads_follows_and_ends_with_before_and_after(folder: Path) -> None:
    demo = Platform(folder / "state", None, "--demo", "examples/din.py", "--out", str(folder / "out"), "--exit")
    said, _ = demo.process.communicate(timeout=150)
    assert demo.process.returncode == 0, said
    assert re.search(r"==> Uploading examples/din.py as \S+@\S+ of [a-z-]+, with a budget of ", said)
    assert "Capturing the graph of" in said
    told = story_coordinator.stored("din")
    assert f"{told['baseline_ms']:.2f} ms" in said and f"{told['best_ms']:.2f} ms" in said, said
    assert (folder / "out" / "recipe.yaml").is_file() and (folder / "out" / "package.zip").is_file()


@pytest.mark.timeout(180)
def test_it_leaves_the_dashboard_until_it_is_interrupted(folder: Path) -> None:
    demo = Platform(folder / "state", None, "--demo", "examples/din.py")
    try:
        demo.until(READY)
        with urllib.request.urlopen(f"http://127.0.0.1:{demo.port}/health/", timeout=20) as answer:
            assert answer.status == 200
        assert demo.process.poll() is None
    finally:
        demo.process.send_signal(signal.SIGINT)
        demo.process.wait(60)
    assert demo.process.returncode == 0, "".join(demo.said)
