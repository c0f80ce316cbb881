"""The text of a trace, out of each kind of file, under a limit on what it unpacks to."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import pytest

from optimizer.diagnosing.traces.source import pieces
from optimizer.errors import FuseworksError

TEXT = '{"traceEvents": [], "name": "é"}'


def test_a_plain_and_a_gzipped_file_hold_the_same_text(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(TEXT)
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(TEXT.encode()))
    assert "".join(pieces(tmp_path / "a.json")) == TEXT
    assert "".join(pieces(tmp_path / "b.json.gz")) == TEXT


def test_gzip_is_told_by_its_bytes_not_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(gzip.compress(TEXT.encode()))
    assert "".join(pieces(tmp_path / "a.json")) == TEXT


def test_members_of_a_zip_may_be_gzipped(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "ranks.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rank0.json", TEXT)
        archive.writestr("rank1.json.gz", gzip.compress(TEXT.encode()))
    assert "".join(pieces(tmp_path / "ranks.zip", "rank0.json")) == TEXT
    assert "".join(pieces(tmp_path / "ranks.zip", "rank1.json.gz")) == TEXT


def test_a_byte_order_mark_and_bad_utf_8_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf" + b'{"name": "\xff"}')
    assert "".join(pieces(tmp_path / "a.json")) == '{"name": "\ufffd"}'


def test_what_unpacks_to_more_than_the_limit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bomb.json.gz").write_bytes(gzip.compress(b" " * (9 << 20)))
    with pytest.raises(FuseworksError) as caught:
        list(pieces(tmp_path / "bomb.json.gz", limit_bytes=8 << 20))
    assert caught.value.id == "diagnosing:user:too-large"
    assert "8 MiB" in caught.value.message


def test_a_gzip_that_ends_early_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(TEXT.encode())[:-12])
    with pytest.raises(FuseworksError) as caught:
        list(pieces(tmp_path / "a.json.gz"))
    assert caught.value.id == "diagnosing:user:not-json"


def test_a_member_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "ranks.zip", "w") as archive:
        archive.writestr("rank0.json", TEXT)
    with pytest.raises(FuseworksError) as caught:
        list(pieces(tmp_path / "ranks.zip", "rank7.json"))
    assert caught.value.id == "diagnosing:user:bad-archive"
