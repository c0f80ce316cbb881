"""What was built is found again whole or not at all, and the least recently used goes when the room is used up."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from optimizer.coordinator.build_cache import DOCUMENT, BuildCache

KEY, OTHER = "a" * 64, "b" * 64


@pytest.fixture
def cache(tmp_path: Path) -> BuildCache:
    return BuildCache(tmp_path / "builds", limit_bytes=1 << 20)


def files(tmp_path: Path, **contents: bytes) -> list[Path]:
    folder = tmp_path / "artifact"
    folder.mkdir(exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return sorted(folder / name for name in contents)


def into(tmp_path: Path, name: str = "into") -> Path:
    folder = tmp_path / name
    folder.mkdir()
    return folder


def test_what_was_stored_is_fetched_with_its_document_and_can_be_read_by_the_next_childs_user(
    cache: BuildCache, tmp_path: Path
) -> None:
    cache.store(KEY, files(tmp_path, model=b"code", weights=b"w" * 1000), {"compile_s": 12.5})
    folder = into(tmp_path)
    assert cache.fetch(KEY, folder) == {"compile_s": 12.5}
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"model": b"code", "weights": b"w" * 1000}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o644 for path in folder.iterdir())


def test_an_unknown_key_is_a_miss(cache: BuildCache, tmp_path: Path) -> None:
    assert cache.fetch(KEY, into(tmp_path)) is None
    cache.store(KEY, files(tmp_path, model=b"code"), {})
    assert cache.fetch(OTHER, into(tmp_path, "second")) is None


def test_an_entry_without_files_is_an_entry(cache: BuildCache, tmp_path: Path) -> None:
    cache.store(KEY, [], {"rewrites": []})
    assert cache.fetch(KEY, into(tmp_path)) == {"rewrites": []}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda entry: (entry / "weights").write_bytes(b"x" * 1000),
        lambda entry: (entry / "weights").unlink(),
        lambda entry: (entry / DOCUMENT).write_text("{"),
        lambda entry: (entry / DOCUMENT).write_text(json.dumps({"files": {"../model": "0"}, "document": {}})),
        lambda entry: (entry / DOCUMENT).unlink(),
    ],
    ids=["changed", "missing", "no JSON", "a name that leads out", "no document"],
)
def test_a_spoilt_entry_is_a_miss_leaves_nothing_behind_and_is_gone(
    spoil: object, cache: BuildCache, tmp_path: Path
) -> None:
    cache.store(KEY, files(tmp_path, model=b"code", weights=b"w" * 1000), {})
    spoil(cache.folder / KEY)  # type: ignore[operator]
    folder = into(tmp_path)
    assert cache.fetch(KEY, folder) is None
    assert list(folder.iterdir()) == []
    assert not (cache.folder / KEY).exists()


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path / "builds", limit_bytes=10_000)
    keys = [letter * 64 for letter in "abcde"]
    for age, key in enumerate(keys[:4]):
        cache.store(key, files(tmp_path, model=b"m" * 2300), {})
        os.utime(cache.folder / key, (age + 1, age + 1))
    cache.fetch(keys[0], into(tmp_path))  # used: it is not the oldest any more
    cache.store(keys[4], files(tmp_path, model=b"m" * 2300), {})
    assert sorted(path.name[0] for path in cache.folder.glob("[a-f]*")) == ["a", "c", "d", "e"]
    assert cache.size_bytes() <= 10_000


def test_what_would_push_out_everything_else_is_not_kept(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path / "builds", limit_bytes=10_000)
    cache.store(KEY, files(tmp_path, model=b"m" * 2501), {})
    assert cache.fetch(KEY, into(tmp_path)) is None


def test_two_runs_that_built_the_same_keep_it_once(cache: BuildCache, tmp_path: Path) -> None:
    cache.store(KEY, files(tmp_path, model=b"first"), {"run": 1})
    cache.store(KEY, files(tmp_path, model=b"second"), {"run": 2})
    folder = into(tmp_path)
    assert cache.fetch(KEY, folder) == {"run": 1}
    assert (folder / "model").read_bytes() == b"first"
    assert [path.name for path in cache.folder.iterdir() if path.is_dir()] == [KEY]


def test_a_folder_that_cannot_be_written_costs_the_run_nothing(tmp_path: Path) -> None:
    (tmp_path / "builds").write_text("a file where the folder should be")
    cache = BuildCache(tmp_path / "builds", limit_bytes=10_000)
    cache.store(KEY, files(tmp_path, model=b"code"), {})
    assert cache.fetch(KEY, into(tmp_path)) is None
