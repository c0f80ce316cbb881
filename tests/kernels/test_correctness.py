"""The kept correctness matrix: of today's kernels, whole, and right."""

from __future__ import annotations

import copy

import pytest

import kernels
from kernels import KERNELS, correctness
from kernels.checking import cases, plain

kernels.load()
KEPT = correctness.read() or {"kernels": {}}


@pytest.mark.parametrize("name", KERNELS.names())
def test_what_is_kept_is_of_the_kernel_as_it_is(name: str) -> None:
    """Write it anew with: make correctness."""
    assert correctness.is_current(KERNELS.get(name), KEPT["kernels"].get(name))


@pytest.mark.parametrize("name", KERNELS.names())
def test_every_dtype_sample_and_configuration_is_in_it(name: str) -> None:
    kept = {
        (row["dtype"], row["sample"], row["edge"], configuration)
        for row in KEPT["kernels"][name]["rows"]
        for configuration in row["outcomes"]
    }
    assert kept == {(plain(c.dtype), c.sample.name, c.edge, c.configuration.name) for c in cases(KERNELS.get(name))}


def test_nothing_in_it_is_wrong_and_no_kernel_is_gone() -> None:
    assert correctness.faults(KEPT) == []
    assert list(KEPT["kernels"]) == KERNELS.names()


def test_a_fault_is_named_with_its_place() -> None:
    row = {
        "dtype": "float32",
        "sample": "2x3",
        "edge": False,
        "outcomes": {"ROWS=1": 0.2, "ROWS=2": "it changed its inputs"},
    }
    document = {"kernels": {"norm": {"rows": [row]}}}
    assert correctness.faults(document) == ["norm float32 2x3 (ROWS=2): it changed its inputs"]


def test_the_file_reads_back_as_it_was_and_has_a_row_a_line(tmp_path) -> None:
    row = {"dtype": "float32", "sample": "a", "edge": True, "outcomes": {"ROWS=1": 0.25}}
    entry = {"source": "0", "date": "2026-01-02", "triton": "1", "torch": "2", "rows": [row, row]}
    document = {"schema_version": "1.0", "kernels": {"first": entry, "second": entry}}
    path = tmp_path / "correctness.json"
    correctness.write(document, path)
    assert correctness.read(path) == document
    assert sum('"sample"' in line for line in path.read_text().splitlines()) == 4
    assert correctness.read(tmp_path / "none.json") is None


def test_the_digest_follows_numbers_and_not_spellings(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = KERNELS.get("rms_norm")
    before = correctness.source_of(kernel)
    monkeypatch.setattr(type(kernel), "spellings", ("another",))
    assert correctness.source_of(kernel) == before
    monkeypatch.setattr(type(kernel), "tolerances", copy.copy(KERNELS.get("int8_linear").tolerances))
    assert correctness.source_of(kernel) != before


def test_without_the_interpreter_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("triton")
    assert correctness.main(["rms_norm"]) == correctness.EXIT_CANNOT
    assert "TRITON_INTERPRET=1" in capsys.readouterr().err


def test_a_kernel_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert correctness.main(["winograd"]) == correctness.EXIT_USAGE
    assert "winograd" in capsys.readouterr().err
