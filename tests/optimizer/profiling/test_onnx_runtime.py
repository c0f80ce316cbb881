"""What ONNX Runtime's own session profiling tells, read into rows."""

from __future__ import annotations

from pathlib import Path

import onnxruntime
import pytest

from optimizer.profiling.document import GraphNode
from optimizer.profiling.onnx_runtime import flops, profile_session, read_events
from optimizer.profiling.places import of_onnx
from tests.optimizer.packaging.conftest import inputs, save_model


def test_each_node_that_runs_has_a_row_with_its_work(tmp_path: Path):
    model = tmp_path / "m.onnx"
    save_model(model)

    def opened(prefix: str) -> onnxruntime.InferenceSession:
        options = onnxruntime.SessionOptions()
        options.enable_profiling, options.profile_file_prefix = True, prefix
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

    rows, call_ms = profile_session(opened, list(inputs().values()), 3, tmp_path, of_onnx(model))
    by_op = {row.op: row for row in rows}
    assert set(by_op) == {"Gemm", "Gather"}  # the runtime itself fuses the product and the sum
    assert by_op["Gemm"].flops == 2 * 4 * 3 * 2
    assert by_op["Gemm"].bytes == 4 * (4 * 3 + 3 * 2 + 4 * 2 + 4 * 2)
    assert by_op["Gather"].bytes == 2 * (4 * 2 * 4) + 4 * 8
    assert call_ms > 0
    assert list(tmp_path.glob("onnxruntime-profile*")) == []


def event(node: str, dur_us: int, **facts: object) -> dict[str, object]:
    return {"cat": "Node", "name": f"{node}_kernel_time", "dur": dur_us, "args": {"op_name": "Relu", **facts}}


def test_warm_up_calls_do_not_count_and_other_events_are_ignored():
    events = [event("n", d) for d in (9000, 9000, 1000, 3000, 2000)]
    events += [{"cat": "Session", "name": "model_run", "dur": 5}, {"cat": "Node", "name": "n_fence_before", "dur": 7}]
    (row,) = read_events(events, 2, {})
    assert row.self_ms == 2.0


def test_a_node_has_the_place_of_the_graphs_node_and_a_fused_one_that_of_its_first_part():
    linear = GraphNode(node="linear", op="linear", module="head", source="model.py:7")
    rows = read_events(
        [event("node_linear", 1), event("fused node_linear", 1), event("made", 1)], 0, {"node_linear": linear}
    )
    assert [(row.module, row.source, row.nodes) for row in rows] == [
        ("head", "model.py:7", [linear]),
        ("head", "model.py:7", [linear]),
        ("made", None, []),
    ]


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
