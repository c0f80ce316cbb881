"""The catalogue: every id names its side, and a child may report any stage's error but none that it made up."""

from __future__ import annotations

import subprocess
import sys

import pytest

from optimizer.errors import CATALOGUE, EXIT_OF_STATUS, FuseworksError, catalogue, load_catalogue
from optimizer.result import RunStatus


def test_every_stage_is_known_to_whoever_reads_a_childs_answer() -> None:
    load_catalogue()
    stages = {id_.split(":")[0] for id_ in CATALOGUE}
    assert stages >= {
        "capturing",
        "optimizing",
        "compiling",
        "verifying",
        "benchmarking",
        "packaging",
        "recipe",
        "sandbox",
    }


def test_a_time_limit_that_passes_is_no_fault_of_the_models() -> None:
    codes = {status.value: EXIT_OF_STATUS[status] for status in RunStatus}
    assert codes == {"succeeded": 0, "failed": 4, "errored": 3, "cancelled": 3, "timed_out": 3}


def test_loading_the_catalogue_brings_no_torch() -> None:
    code = "import sys; from optimizer.errors import load_catalogue; load_catalogue(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_an_error_survives_the_wire() -> None:
    load_catalogue()
    error = FuseworksError("capturing:user:syntax-error", place="model.py:1", detail="def (", text="invalid syntax")
    again = FuseworksError.from_document(error.document())
    assert (again.id, again.place, again.detail, again.side) == (error.id, "model.py:1", "def (", "user")
    assert again.message == error.message


@pytest.mark.parametrize("id_", ["made:user:up", "", None, 7])
def test_an_id_that_a_child_made_up_is_ours_and_keeps_what_it_said(id_: object) -> None:
    again = FuseworksError.from_document({"id": id_, "detail": "what it said"})
    assert again.id == "child:ours:unexpected"
    assert again.detail == "what it said"


def test_an_id_is_defined_once_and_names_a_side() -> None:
    with pytest.raises(RuntimeError, match="twice"):
        catalogue({"child:user:crashed": ("again", "no")})
    with pytest.raises(RuntimeError, match="names no side"):
        catalogue({"child:nobodys:fault": ("text", "remedy")})
