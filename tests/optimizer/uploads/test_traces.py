"""What may hold traces is told from models by suffix, first bytes and a zip's listing."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import pytest

from optimizer.uploads.refusals import Refused
from optimizer.uploads.traces import trace_members

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
