"""What the report shows of a prediction."""

from __future__ import annotations

from typing import Any

from optimizer.predicting.document import ExternCall, Lowering, PredictedKernel, Prediction, SourceNode
from optimizer.predicting.formula import formula
from optimizer.reporting.report import render
from optimizer.result import Result


def kernel(**more: Any) -> PredictedKernel:
    values: dict[str, Any] = {
        "name": "triton_<b>relu</b>",
        "origin": "inductor",
        "source_nodes": [SourceNode(node="relu", operation="aten.relu.default", source="model.py:7")],
        "configuration": "XBLOCK=1024 warps=4 stages=1",
        "configurations": 2,
        "registers": 24,
        "spills": 0,
        "shared_bytes": 2048,
        "shared_limit_bytes": 232_448,
        "occupancy": 0.75,
        "blocks_per_sm": 12,
        "limited_by": "registers",
        "grid": [256, 1, 1],
        "warps": 4,
        "vector_loads": 4,
        "loads": {"128": 4, "32": 1},
        "tensor_core_instructions": 0,
        "instructions": 60,
        "mix": {"float": 60},
        "bytes_in_flight": 1000,
        "bytes_in_flight_wanted": 2000,
        "triton_source": "def triton_relu(): ...",
        "launches": 2,
        "bytes": 4096,
        "flops": 1024,
        "bound_us": 1.254,
        "bound_by": "memory",
        "upper_us": 14.0,
    }
    return PredictedKernel(**{**values, **more})


def lowering(ends: tuple[float, float], launched: int) -> Lowering:
    call = ExternCall(
        name="aten.mm.out", shapes=["float32[512, 13]"], dtype="float32", launches=1, bytes=10, flops=10,
        bound_us=4.012, bound_by="compute", upper_us=12.0,
    )  # fmt: skip
    return Lowering(
        kernels=[kernel()], extern_calls=[call], kernels_launched=launched, bytes_moved=3 << 20, predicted_ms=ends,
        lowering_s=1.0, compiling_s=1.0,
    )  # fmt: skip


def result(applied: list[str]) -> Result:
    before, after = lowering((0.25, 0.5), 41), lowering((0.125, 0.375), 17)
    predicted = Prediction(
        target="cuda:sm_90",
        device="NVIDIA H100 SXM 80 GB",
        device_sources=[],
        sizes={"batch": 512},
        before=before,
        after=after if applied else before,
        applied=applied,
        difference={"kernels_launched": -24, "bytes_moved": 0, "predicted_ms": (-0.125, -0.125)},
        formula=formula(),
    )
    return Result.model_validate({"purpose": "explain", "status": "succeeded", "predicted": predicted})


def test_kernels_bounds_and_both_ends_are_shown_and_called_predicted():
    page = render(result(["merge_embedding_tables"]), {})
    assert "Predicted for NVIDIA H100 SXM 80 GB: nothing was measured" in page
    assert "triton_&lt;b&gt;relu&lt;/b&gt;" in page and "relu (model.py:7)" in page
    for text in ("1.25 µs", "4.01 µs", "4 of 5", "75", "2.0 KiB", "0.250 ms", "0.375 ms", ">41<", ">17<", "gap_us = 5"):
        assert text in page, text
    assert "measured on" not in page


def test_without_rewrites_there_is_one_row():
    page = render(result([]), {})
    assert "No rewrite of ours fits this graph." in page
    assert "after our rewrites" not in page
