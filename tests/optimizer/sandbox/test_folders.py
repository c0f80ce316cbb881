"""A child's folder on the host: held while it is used, swept once nobody holds it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from optimizer.sandbox import folders


@pytest.fixture
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def age(folder: Path) -> None:
    os.utime(folder / folders.LOCK, (1, 1))


def test_a_sweep_takes_what_a_killed_process_left_and_leaves_what_is_held(parent: Path) -> None:
    held, held_fd = folders.own_folder()
    left, left_fd = folders.own_folder()
    os.close(left_fd)
    age(held)
    age(left)
    folders.sweep(parent)
    assert held.exists()
    assert not left.exists()
    os.close(held_fd)


def test_a_sweep_leaves_what_is_young_or_no_folder_of_ours(parent: Path) -> None:
    young, fd = folders.own_folder()
    os.close(fd)
    (parent / "fuseworks-notes").mkdir()
    folders.sweep(parent)
    assert young.exists()
    assert (parent / "fuseworks-notes").exists()


def test_a_folder_without_rights_and_a_deep_one_are_removed(parent: Path) -> None:
    folder, fd = folders.own_folder()
    (folder / "closed").mkdir()
    (folder / "closed" / "f").write_text("x")
    (folder / "closed").chmod(0o000)
    here = os.getcwd()
    os.chdir(folder)
    try:
        for _ in range(1200):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(here)
    folders.remove_folder(folder)
    assert not folder.exists()
    os.close(fd)
