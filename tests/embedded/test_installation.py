"""An installation's folder: who may enter it, and what is closed below."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from fuseworks.embedded.children import spawn
from fuseworks.embedded.installation import Installation, closed_folder
from fuseworks.embedded.valkey import free_port

OPEN = 0o755
# PostgreSQL drops root and must walk through to its own folder.
CLOSED = 0o711 if os.geteuid() == 0 else 0o700


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_folder_is_closed_and_so_is_what_others_could_name_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql:///somewhere")
    monkeypatch.setenv("REDIS_URL", "redis://somewhere")
    installation = Installation(tmp_path / "state", port=free_port(), workers=1)
    installation.hold()
    installation.secret("worker")
    assert mode(tmp_path / "state") == CLOSED
    assert mode(tmp_path / "state" / "logs") == mode(tmp_path / "state" / "storage") == 0o700
    assert mode(tmp_path / "state" / "worker-secret") == 0o600


@pytest.mark.parametrize("name", ["supervisor.lock", "secret-key"])
def test_an_installation_that_was_open_is_closed(tmp_path: Path, name: str):
    tmp_path.chmod(OPEN)
    (tmp_path / name).touch()
    closed_folder(tmp_path)
    assert mode(tmp_path) == CLOSED


def test_a_folder_with_other_things_in_it_keeps_its_mode(tmp_path: Path):
    tmp_path.chmod(OPEN)
    (tmp_path / "letter.txt").touch()
    closed_folder(tmp_path)
    assert mode(tmp_path) == OPEN


def test_logs_are_read_by_their_owner_alone(tmp_path: Path):
    log = tmp_path / "log"
    assert spawn(["echo", "said"], log=log).wait() == 0
    assert log.read_text() == "said\n"
    assert mode(log) == 0o600
