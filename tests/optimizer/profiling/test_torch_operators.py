"""torch's profiler read into one row for each operation of a call."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from optimizer.profiling.document import GraphNode
from optimizer.profiling.torch_operators import profile_operators, rows_of

FIRST, SECOND = (GraphNode(node=n, op="addmm", module=n, source="model.py:3") for n in ("first", "second"))


def event(name: str, us: float, shapes: object = None) -> SimpleNamespace:
    return SimpleNamespace(name=name, cpu_time_total=us, input_shapes=shapes)


def test_the_nth_operation_of_a_name_is_one_row_with_the_median_of_all_calls() -> None:
    calls = [[event("aten::addmm", us, [[5, 123], []]), event("aten::addmm", 10 * us)] for us in (100.0, 900.0, 300.0)]
    rows = rows_of(calls, [("addmm", [FIRST]), ("addmm", [SECOND])])
    assert [(row.op, row.self_ms, row.module, row.calls) for row in rows] == [
        ("addmm", 0.3, "first", 1),
        ("addmm", 3.0, "second", 1),
    ]
    assert rows[0].shapes == [[5, 123]]


def test_another_number_of_calls_than_the_compiler_wrote_is_led_back_to_no_node() -> None:
    rows = rows_of([[event("aten::addmm", 1.0)]], [("addmm", [FIRST]), ("addmm", [SECOND])])
    assert (rows[0].nodes, rows[0].module) == ([], None)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("graph_0_cpp_fused_relu_2", "cpp_fused_relu_2"),
        ("aoti_torch_cpu__linear_pointwise", "_linear_pointwise"),
        ("mkldnn::_linear_pointwise", "mkldnn::_linear_pointwise"),
    ],
)
def test_a_kernel_is_shown_by_its_own_name(name: str, shown: str) -> None:
    assert rows_of([[event(name, 1.0)]], [])[0].op == shown


def test_only_the_outermost_operation_has_a_row() -> None:
    matrix = torch.ones(123, 5)

    def call() -> torch.Tensor:
        return torch.nn.functional.linear(matrix, torch.ones(3, 5)).relu()  # linear calls t and mm

    rows, call_ms = profile_operators(call, 3)
    assert [row.op for row in rows] == ["ones", "linear", "relu"]
    assert all(row.self_ms > 0 for row in rows)
    assert sum(row.self_ms for row in rows) <= call_ms * 1.5
    assert rows[1].shapes == [[123, 5], [3, 5]]
