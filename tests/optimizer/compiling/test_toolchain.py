"""The compile cache's folder: seeded by a trusted child, whole or not at all, made anew when the toolchain changes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from optimizer import machine
from optimizer.compiling import toolchain
from optimizer.compiling.toolchain import toolchain_cache, toolchain_key
from optimizer.errors import FuseworksError
from optimizer.sandbox import ChildSpec, Reply

pytestmark = pytest.mark.skipif(toolchain.cpp_compiler() is None, reason="there is no C++ compiler")


class Seeding:
    """Stands for a child: leaves the files that it is given, or fails half-way."""

    def __init__(self, files: dict[str, bytes], failure: Exception | None = None) -> None:
        self.files, self.failure = files, failure
        self.specs: list[ChildSpec] = []

    def __call__(self, spec: ChildSpec) -> Any:
        self.specs.append(spec)
        return self

    def __enter__(self) -> Seeding:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def call(self, op: str, *, timeout_s: float, collect: Path) -> Reply:
        assert op == "compiling.seed_toolchain"
        for name, content in self.files.items():
            (collect / name).write_bytes(content)
        if self.failure:
            raise self.failure
        return Reply({"seconds": 1.5}, [])


def test_it_is_seeded_by_a_trusted_child_that_gets_no_upload(tmp_path: Path) -> None:
    child = Seeding({"cache__ab__probe.so": b"12345"})
    made = toolchain_cache(child, tmp_path)
    assert made is not None
    assert (made.size_bytes, made.seeded_s) == (5, 1.5)
    (spec,) = child.specs
    assert spec.trusted and not spec.inputs
    again = toolchain_cache(child, tmp_path)
    assert again is not None and again.seeded_s is None and len(child.specs) == 1
    assert made.folder.stat().st_mode & 0o755 == 0o755, "another uid must be able to read it"


def test_a_seeding_that_fails_leaves_nothing(tmp_path: Path) -> None:
    failure = FuseworksError("compiling:ours:toolchain", text="the compiler died")
    with pytest.raises(FuseworksError, match="the compiler died"):
        toolchain_cache(Seeding({"half": b"1"}, failure), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [".toolchain.lock"]


def test_an_empty_cache_is_no_cache(tmp_path: Path) -> None:
    with pytest.raises(FuseworksError, match="nothing to keep"):
        toolchain_cache(Seeding({}), tmp_path)


def test_a_folder_that_cannot_be_written_is_our_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FuseworksError) as caught:
        toolchain_cache(Seeding({"a": b"1"}), tmp_path / "file" / "below")
    assert caught.value.id == "compiling:ours:toolchain" and caught.value.side == "ours"


def test_another_processor_or_version_means_another_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    key = toolchain_key()
    assert key == toolchain_key()
    with monkeypatch.context() as change:
        change.setattr(machine, "cpu_isa", lambda: ["avx512f"])
        assert toolchain_key() != key
    with monkeypatch.context() as change:
        change.setattr(toolchain, "LAYOUT", toolchain.LAYOUT + 1)
        assert toolchain_key() != key


def test_a_cache_that_no_run_has_used_for_a_month_goes_when_another_is_made(tmp_path: Path) -> None:
    for name, days in (("toolchain-old", 31), ("toolchain-recent", 5)):
        (tmp_path / name).mkdir()
        then = os.stat(tmp_path / name).st_mtime - days * 86_400
        os.utime(tmp_path / name, (then, then))
    made = toolchain_cache(Seeding({"a": b"1"}), tmp_path)
    assert made is not None
    assert sorted(p.name for p in tmp_path.glob("toolchain-*")) == sorted([made.folder.name, "toolchain-recent"])


def test_without_a_compiler_there_is_no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(toolchain, "cpp_compiler", lambda: None)
    assert toolchain_cache(Seeding({"a": b"1"}), tmp_path) is None
    assert not list(tmp_path.iterdir())
