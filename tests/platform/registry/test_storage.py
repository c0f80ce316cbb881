"""Where files lie: keys, digests, memory, downloads."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import io
import os
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fuseworks.core.errors import PlatformError
from fuseworks.core.storage import (
    BLOCK_BYTES,
    delete_stored,
    open_stored,
    refused_when_full,
    serve,
    store,
    store_file,
    stored_keys,
)

MIB = 1 << 20


class Endless:
    """Zeros, made as they are read."""

    def __init__(self, size_bytes: int, break_at: int | None = None) -> None:
        self.left, self.break_at = size_bytes, break_at

    def read(self, size: int, /) -> bytes:
        if self.break_at is not None and self.left <= self.break_at:
            raise ConnectionResetError
        given = min(size, self.left)
        self.left -= given
        return bytes(given)


def test_what_is_stored_comes_back_with_its_digest_and_size() -> None:
    stored = store(io.BytesIO(b"abc"), prefix="artifacts")
    assert stored.key.startswith("artifacts/")
    assert stored.size_bytes == 3
    # FIPS 180-2, example B.1
    assert stored.sha256 == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    with open_stored(stored.key) as file:
        assert file.read() == b"abc"


def test_storing_takes_no_more_memory_than_a_few_blocks() -> None:
    tracemalloc.start()
    stored = store(Endless(64 * MIB), prefix="artifacts")
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert stored.size_bytes == 64 * MIB
    assert peak_bytes < 8 * BLOCK_BYTES


def test_a_stream_that_breaks_leaves_no_file(storage: Path) -> None:
    with pytest.raises(ConnectionResetError):
        store(Endless(4 * MIB, break_at=MIB), prefix="artifacts")
    assert [path for path in storage.rglob("*") if path.is_file()] == []


def test_equal_bytes_have_two_keys_and_deleting_one_keeps_the_other() -> None:
    first, second = store(io.BytesIO(b"same"), prefix="x"), store(io.BytesIO(b"same"), prefix="x")
    delete_stored(first.key)
    delete_stored(first.key)  # once more is no error
    with open_stored(second.key) as file:
        assert file.read() == b"same"
    with pytest.raises(PlatformError) as caught:
        open_stored(first.key)
    assert caught.value.status == 404


def test_a_file_of_this_machine_is_taken_in_and_stays_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "mine"
    path.write_bytes(b"bytes")
    key = store_file(path, prefix="versions")
    assert path.read_bytes() == b"bytes"
    with open_stored(key) as file:
        assert file.read() == b"bytes"
    assert [k for k, _ in stored_keys("versions")] == [key]
    assert list(stored_keys("nothing")) == []


def test_a_file_that_is_taken_in_is_on_the_disk_when_its_key_is_known(
    tmp_path: Path, storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled: list[str] = []
    monkeypatch.setattr(
        "fuseworks.core.storage.os.fsync", lambda descriptor: settled.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    )
    path = tmp_path / "mine"
    path.write_bytes(b"bytes")
    file = storage / "files" / store_file(path, prefix="versions")
    assert settled == [str(file), str(file.parent), str(storage / "files")]


@pytest.mark.parametrize("step", ["shutil.copyfile", "os.fsync"])
def test_half_a_copy_on_a_full_disk_is_not_left(
    step: str, tmp_path: Path, storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object) -> None:
        if step == "shutil.copyfile":
            Path(str(given[1])).write_bytes(b"ha")
        raise OSError(errno.ENOSPC, "No space left on device")

    def no_links(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    path = tmp_path / "mine"
    path.write_bytes(b"half")
    monkeypatch.setattr("fuseworks.core.storage.os.link", no_links)
    monkeypatch.setattr(f"fuseworks.core.storage.{step}", full)
    with pytest.raises(PlatformError) as caught, refused_when_full("registry:ours:disk-full"):
        store_file(path, prefix="versions")
    assert caught.value.status == 507
    assert [file for file in storage.rglob("*") if file.is_file()] == []


def test_any_other_trouble_of_the_disk_is_no_lack_of_room() -> None:
    with pytest.raises(OSError) as caught, refused_when_full("registry:ours:disk-full"):
        raise OSError(errno.EIO, "Input/output error")
    assert caught.value.errno == errno.EIO


def test_only_the_web_processes_may_read_the_files(storage: Path) -> None:
    stored = store(io.BytesIO(b"secret"), prefix="versions")
    path = storage / "files" / stored.key
    assert path.stat().st_mode & 0o007 == 0
    assert path.parent.stat().st_mode & 0o007 == 0


def test_a_download_is_an_attachment_that_no_browser_runs() -> None:
    stored = store(io.BytesIO(b"<script>alert(1)</script>"), prefix="artifacts")
    response = serve(stored.key, filename="report é.html", content_type="text/html", size=stored.size_bytes)
    assert response.headers["Content-Disposition"] == "attachment; filename*=utf-8''report%20%C3%A9.html"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in response.headers["Content-Security-Policy"]
    assert response.headers["Content-Length"] == "25"
    assert b"".join(response.streaming_content) == b"<script>alert(1)</script>"  # type: ignore[arg-type]
    response.file_to_stream.close()


def test_a_download_under_asgi_comes_in_blocks_too() -> None:
    data = bytes(range(256)) * (3 * MIB // 256)
    stored = store(io.BytesIO(data), prefix="artifacts")
    response = serve(stored.key, filename="x", content_type="application/octet-stream", size=len(data))

    async def blocks() -> list[bytes]:
        return [block async for block in response]

    # in a thread: a browser test before this one leaves an event loop running in its own
    with ThreadPoolExecutor(1) as pool:
        received = pool.submit(asyncio.run, blocks()).result()
    response.file_to_stream.close()
    assert [len(block) for block in received] == [MIB, MIB, MIB]
    assert hashlib.sha256(b"".join(received)).hexdigest() == stored.sha256
