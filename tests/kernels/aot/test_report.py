"""The kept report: what is compiled anew and what is taken over; what the check says of one that is not of today."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("triton")

import kernels
from kernels.aot import check as checking
from kernels.aot import report as reporting
from kernels.aot.devices import TARGETS
from kernels.aot.page import markdown
from tests.kernels.aot.test_check import GOOD

NAME = "add_rms_norm"


class OneKernel:
    """A registry with one of the library's kernels in it."""

    def names(self) -> list[str]:
        return [NAME]

    def __iter__(self) -> Iterator[Any]:
        return iter([kernels.KERNELS.get(NAME)])


@pytest.fixture
def compiled(monkeypatch) -> list[reporting.Request]:
    """What was asked of the compiler, which is replaced: each row comes out well."""
    asked: list[reporting.Request] = []

    def rows_of(requests: list[reporting.Request]) -> list[dict[str, Any]]:
        asked.extend(requests)
        fields = ("kernel", "configuration", "dtype", "target", "launch")
        return [{**dict(zip(fields, r.place, strict=True)), "key": r.key, **GOOD} for r in requests]

    for module in (reporting, checking):
        monkeypatch.setattr(module, "KERNELS", OneKernel())
        monkeypatch.setattr(module, "rows_of", rows_of)
    return asked


def test_every_configuration_and_dtype_is_asked_for_on_every_target(compiled):
    asked = list(reporting.requests())
    kernel = kernels.KERNELS.get(NAME)
    dtypes = [str(dtype).removeprefix("torch.") for dtype in kernel.tolerances if "64" not in str(dtype)]
    assert {one.device.target for one in asked} == set(TARGETS)
    assert {one.dtype for one in asked} == set(dtypes)
    options = {one.name for one in kernel.configurations(*kernel.typical(next(iter(kernel.tolerances))).args)}
    assert {one.configuration for one in asked} >= options
    assert len({one.place for one in asked}) == len(asked)


def test_only_what_the_compiler_would_see_anew_is_compiled(compiled):
    first = reporting.report(None, print)
    assert len(compiled) == len(first["rows"]) > 0
    compiled.clear()
    assert reporting.report(first, print) == first and not compiled
    first["rows"][3]["key"] = "of older code"
    again = reporting.report(first, print)
    assert [one.place for one in compiled] == [reporting.place_of(again["rows"][3])]
    compiled.clear()
    reporting.report(first, print, anew=True)
    assert len(compiled) == len(first["rows"])


def test_what_is_known_so_far_is_saved_and_rows_of_kernels_that_are_gone_are_dropped(compiled):
    saved: list[dict[str, Any]] = []
    gone = {"kernel": "gone", "configuration": "", "dtype": "", "target": "", "launch": 0, "key": ""}
    whole = reporting.report({"rows": [gone]}, print, save=saved.append)
    assert saved == [whole]
    assert {row["kernel"] for row in whole["rows"]} == {NAME}


def test_the_file_has_a_row_a_line_and_reads_back_as_it_was(compiled, tmp_path):
    document = reporting.report(None, print)
    path = tmp_path / "report.json"
    reporting.write(document, path)
    assert reporting.read(path) == json.loads(json.dumps(document))
    lines = [line for line in path.read_text().splitlines() if '"kernel":' in line]
    assert len(lines) == len(document["rows"])
    assert reporting.read(tmp_path / "none.json") is None


def test_the_page_has_a_table_for_each_target_and_its_devices_sources(compiled):
    text = markdown(reporting.report(None, print))
    assert text.count("| kernel | dtype |") == len(TARGETS)
    assert "## cuda:sm_90: NVIDIA H100" in text and "data sheet" in text
    assert "Predicted, not measured" in text
    assert "## Exceptions\n\nNone." in text


def test_the_check_is_silent_about_a_report_of_this_very_source(compiled):
    kept = reporting.report(None, print)
    compiled.clear()
    assert not list(checking.check(kept, changed=True)) and not compiled
    assert not list(checking.check(kept)) and len(compiled) == len(kept["rows"])


def test_the_check_names_what_is_new_changed_worse_or_gone(compiled):
    kept = reporting.report(None, print)
    new, changed, worse = kept["rows"][0], kept["rows"][1], kept["rows"][2]
    kept["rows"] = [*kept["rows"][1:], {**new, "configuration": "ROWS=9", "key": "gone"}]
    changed["key"] = "of older code"
    worse.update(key="of older code", vector_loads=9, loads={"128": 9})
    compiled.clear()
    found = list(checking.check(kept, changed=True))
    assert len(compiled) == 3
    texts = [line.partition(": ")[2] for line in found]
    assert texts == [
        f"lost 128-bit loads: {GOOD['loads']} by width in bits, before {worse['loads']}",
        "is not in the report (make aot)",
        "was changed since the report (make aot)",
        "was changed since the report (make aot)",
        "is in the report and there no more (make aot)",
    ]
    assert all(line.startswith(f"{NAME} ") for line in found)
