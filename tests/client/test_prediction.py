"""How a prediction looks on a terminal, and as one document."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from fuseworks_client.answer import show
from fuseworks_client.prediction import flat

KERNEL: dict[str, Any] = {
    "name": "triton_poi_fused_\x1b[31mrelu_0",
    "launches": 2,
    "registers": 24,
    "spills": 3,
    "shared_bytes": 1024,
    "occupancy": 0.5,
    "blocks_per_sm": 4,
    "vector_loads": 4,
    "loads": {"128": 4, "32": 1},
    "bound_us": 1.25,
    "source_nodes": [{"node": f"n{i}", "operation": "aten.relu", "source": f"model.py:{i}"} for i in range(5)],
}
CALL: dict[str, Any] = {
    "name": "aten.mm.out",
    "launches": 1,
    "bound_us": 4.0,
    "bound_by": "compute",
    "shapes": ["float32[512, 512]"],
}


def lowering(launched: int, moved: int, ends: list[float]) -> dict[str, Any]:
    return {
        "kernels": [KERNEL],
        "extern_calls": [CALL],
        "kernels_launched": launched,
        "bytes_moved": moved,
        "predicted_ms": ends,
    }


PREDICTED: dict[str, Any] = {
    "target": "cuda:sm_90",
    "device": "NVIDIA H100",
    "device_sources": ["rates: a data sheet"],
    "sizes": {"batch": 512},
    "before": lowering(40, 1000, [0.012, 0.3]),
    "after": lowering(15, 1200, [0.013, 0.1]),
    "applied": ["merge_embedding_tables"],
    "difference": {"kernels_launched": -25, "bytes_moved": 200, "predicted_ms": [0.001, -0.2]},
    "formula": {
        "lower": "the sum",
        "upper": "the sum by a share",
        "assumptions": {"gap_us": 5.0},
        "notes": ["Predicted."],
    },
}
RESULT: dict[str, Any] = {"purpose": "explain", "status": "succeeded", "summary": "Predicted", "predicted": PREDICTED}


def shown(result: dict[str, Any]) -> str:
    console = Console(file=io.StringIO(), width=160, color_system=None)
    show(result, None, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_terminal_shows_kernels_bounds_the_sum_and_the_difference():
    text = shown(RESULT)
    assert "Predicted for NVIDIA H100; nothing was run there." in text
    assert "triton_poi_fused_relu_0" in text and "\x1b" not in text
    assert "4/5" in text and "50%" in text and "1.25 µs" in text
    assert "n0 (model.py:0), n1 (model.py:1), n2 (model.py:2) and 2 more" in " ".join(text.split())
    assert "aten.mm.out" in text and "compute" in text
    assert "0.012 to 0.300 ms" in text and "0.013 to 0.100 ms" in text
    assert "lower end +0.001, upper end -0.200 ms" in text and "-25" in text and "+200" in text
    assert "gap_us = 5" in text and "the sum by a share" in text


def test_without_rewrites_there_is_one_line_and_no_difference():
    text = shown({**RESULT, "predicted": {**PREDICTED, "applied": []}})
    assert "No rewrite of ours fits this graph." in text
    assert "difference" not in text


def test_the_document_has_the_kernels_at_its_top_and_both_sides_in_full():
    document = flat(RESULT)
    assert document["kernels"] == [KERNEL] and document["extern_calls"] == [CALL]
    assert document["predicted_ms"] == [0.013, 0.1]
    assert document["before"]["predicted_ms"] == [0.012, 0.3]
    assert document["after"] == PREDICTED["after"]
    assert document["target"] == "cuda:sm_90" and document["status"] == "succeeded"


def test_a_failure_keeps_its_problem_and_has_no_figures():
    document = flat({"purpose": "explain", "status": "failed", "problem": {"id": "x"}, "predicted": None})
    assert document == {"purpose": "explain", "status": "failed", "problem": {"id": "x"}}
