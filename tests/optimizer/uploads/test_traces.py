"""What may hold traces is told from models by suffix, first bytes and a zip's listing."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path

import pytest

from optimizer.uploads.refusals import Refused
from optimizer.uploads.traces import check, limit_bytes, trace_members

TRACE = '{"traceEvents": []}'


@pytest.mark.parametrize("name", ["trace.json", "trace.pt.trace.json", "t.JSON"])
def test_json_may_be_a_trace(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(TRACE)
    assert trace_members(tmp_path / name) == [None]


def test_gzip_and_json_under_any_name_may_be_traces(tmp_path: Path) -> None:
    (tmp_path / "trace.gz").write_bytes(gzip.compress(TRACE.encode()))
    (tmp_path / "trace").write_text("\n  " + TRACE)
    assert trace_members(tmp_path / "trace.gz") == [None]
    assert trace_members(tmp_path / "trace") == [None]


def test_a_zip_of_ranks_is_told_with_its_members(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "ranks.zip", "w") as archive:
        archive.writestr("job/rank0.json", TRACE)
        archive.writestr("job/rank1.json.gz", gzip.compress(TRACE.encode()))
        archive.writestr("job/README.txt", "of last night")
        archive.writestr("__MACOSX/job/rank0.json", "x")
    assert trace_members(tmp_path / "ranks.zip") == ["job/rank0.json", "job/rank1.json.gz"]


@pytest.mark.parametrize(
    "names", [["model.py"], ["model.py", "settings.json"], ["model.onnx", "a.json"], ["config.json", "w.safetensors"]]
)
def test_a_zip_of_a_model_is_none_of_traces(tmp_path: Path, names: list[str]) -> None:
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        for name in names:
            archive.writestr(name, "{}")
    assert trace_members(tmp_path / "model.zip") is None


@pytest.mark.parametrize("name", ["model.py", "model.onnx", "model.pt2"])
def test_models_are_no_traces(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"import torch\n")
    assert trace_members(tmp_path / name) is None


def test_a_zip_that_no_tool_writes_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "ranks.zip", "w") as archive:
        archive.writestr("../rank0.json", TRACE)
    with pytest.raises(Refused) as caught:
        trace_members(tmp_path / "ranks.zip")
    assert caught.value.reason == "bad-zip"


def test_archives_of_other_kinds_within_a_zip_are_still_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "ranks.zip", "w") as archive:
        archive.writestr("inner.zip", "x")
        archive.writestr("rank0.json", TRACE)
    with pytest.raises(Refused):
        trace_members(tmp_path / "ranks.zip")


def checked(folder: Path, name: str, data: bytes) -> str:
    """Empty where it passes, else the reason and what is told of the file."""
    path = folder / name
    path.write_bytes(data)
    try:
        with path.open("rb") as file:
            check(file, name)
    except Refused as refused:
        return f"{refused.reason}: {refused.context.get('what') or refused.context.get('text')}"
    return ""


def zipped(**members: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "."), data)
    return packed.getvalue()


GZIPPED = gzip.compress(TRACE.encode(), mtime=0)  # a time in it would be part of the tests' names


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("t.json", TRACE.encode()),
        ("t.JSON", b"\xef\xbb\xbf  [" + TRACE.encode() + b"]"),
        ("t.json.gz", GZIPPED),
        ("ranks.zip", zipped(rank0__json=TRACE.encode(), rank1__json__gz=GZIPPED)),
    ],
)
def test_an_upload_that_may_hold_traces_passes(tmp_path: Path, name: str, data: bytes) -> None:
    assert checked(tmp_path, name, data) == ""


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("model.py", b"class Model: ...", "foreign: it is a model, and those go to the page of models"),
        ("w.pt", b"x", "foreign: it is a PyTorch checkpoint or TorchScript"),
        ("notes.txt", b"x", "foreign: its suffix is .txt"),
        ("trace", b"{}", "foreign: its suffix is missing"),
        ("t.json", GZIPPED, "foreign: it is a gzip file: name it .json.gz"),
        ("t.json.gz", TRACE.encode(), "foreign: it is no gzip file"),
        ("t.json", b"%PDF-1.7", "foreign: it is a PDF document"),
        ("t.json", b"hello", "foreign: it is no JSON document"),
        ("t.zip", TRACE.encode(), "foreign: it is no zip archive, whatever its name says"),
        ("t.zip", zipped(model__py=b""), "foreign: it is a zip archive without a .json or .json.gz of a profiler"),
        ("t.zip", b"PK\x03\x04 and no more", "bad-zip: File is not a zip file"),
    ],
)
def test_any_other_upload_is_refused_by_what_it_is(tmp_path: Path, name: str, data: bytes, told: str) -> None:
    assert checked(tmp_path, name, data) == told


def test_one_trace_has_a_gibibyte_and_a_zip_of_many_more() -> None:
    assert [limit_bytes(name) >> 30 for name in ("a.json", "a.JSON.GZ", "a.zip")] == [1, 1, 8]
