"""The profile of an ONNX model by ONNX Runtime's own profiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer.profiling.onnx_runtime import flops, profile_onnx, read_events
from tests.optimizer.packaging.conftest import inputs, save_model


def test_each_node_that_runs_has_a_row_with_its_work(tmp_path: Path):
    save_model(tmp_path / "m.onnx")
    rows, wall_ms = profile_onnx(str(tmp_path / "m.onnx"), list(inputs().values()), 3, 1, tmp_path)
    by_op = {row.op: row for row in rows}
    assert set(by_op) == {"Gemm", "Gather"}  # the runtime itself fuses the product and the sum
    assert by_op["Gemm"].flops == 2 * 4 * 3 * 2
    assert by_op["Gemm"].bytes == 4 * (4 * 3 + 3 * 2 + 4 * 2 + 4 * 2)
    assert by_op["Gather"].bytes == 2 * (4 * 2 * 4) + 4 * 8
    assert wall_ms > 0
    assert list(tmp_path.glob("onnxruntime-profile*")) == []


def event(node: str, dur_us: int, **facts: object) -> dict[str, object]:
    return {"cat": "Node", "name": f"{node}_kernel_time", "dur": dur_us, "args": {"op_name": "Relu", **facts}}


def test_warm_up_calls_do_not_count_and_other_events_are_ignored():
    events = [event("n", d) for d in (9000, 9000, 1000, 3000, 2000)]
    events += [{"cat": "Session", "name": "model_run", "dur": 5}, {"cat": "Node", "name": "n_fence_before", "dur": 7}]
    (row,) = read_events(events, warm_up=2)
    assert row.self_ms == 2.0


@pytest.mark.parametrize(
    ("op", "ins", "outs", "expected"),
    [
        ("MatMul", [[2, 4, 3], [3, 5]], [[2, 4, 5]], 2 * 2 * 4 * 5 * 3),
        ("Gemm", [[4, 3], [3, 5]], [[4, 5]], 2 * 4 * 5 * 3),
        ("Gemm", [[3, 4], [5, 3]], [[4, 5]], 2 * 4 * 5 * 3),
        ("Conv", [[1, 3, 8, 8], [16, 3, 3, 3]], [[1, 16, 8, 8]], 2 * 16 * 64 * 27),
        ("Relu", [[4]], [[4]], None),
        ("MatMul", [[4, 3]], [[4, 5]], 2 * 4 * 5 * 3),
        ("MatMul", [], [], None),
    ],
)
def test_flops_of_products(op: str, ins: list[list[int]], outs: list[list[int]], expected: int | None):
    assert flops(op, ins, outs) == expected
