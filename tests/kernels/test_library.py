"""`python -m kernels` and the verb behind `fuseworks kernels`: the library as a list."""

from __future__ import annotations

import json
from typing import Any

import kernels
from kernels.__main__ import library, lines
from tests.kernels.processes import run_module

kernels.load()


def test_the_verb_prints_one_document_and_every_kernel() -> None:
    document: dict[str, Any] = json.loads(run_module("optimizer", "kernels", "--json"))
    assert document["format"] == 1
    assert [one["name"] for one in document["kernels"]] == kernels.KERNELS.names()
    norm = next(one for one in document["kernels"] if one["name"] == "rms_norm")
    assert norm["dtypes"] == ["bfloat16", "float16", "float32"]
    assert norm["targets"] == ["cpu", "cuda:sm_80 and later", "rocm"]
    assert "aten.rms_norm" in norm["patterns"]
    assert "x / sqrt(mean(x ** 2" in norm["formula"]
    assert len(norm["configurations"]) >= 2


def test_the_list_says_what_is_called_by_name() -> None:
    text = lines(library())
    assert text[text.index(next(t for t in text if t.startswith("jagged_attention: "))) + 1] == (
        "  matches: nothing, it is called by name"
    )
