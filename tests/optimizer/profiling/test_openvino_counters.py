"""OpenVINO's counters: what ran, in milliseconds, with the layers that it fused."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

from optimizer.profiling.document import GraphNode
from optimizer.profiling.openvino_counters import read_counters

STATUS = SimpleNamespace(EXECUTED=2, NOT_RUN=0)


def counter(name: str, us: int, *, kind: str = "MVN", how: str = "jit_f32", ran: bool = True) -> SimpleNamespace:
    return SimpleNamespace(
        node_name=name,
        node_type=kind,
        exec_type=how,
        real_time=timedelta(microseconds=us),
        status=STATUS.EXECUTED if ran else STATUS.NOT_RUN,
        Status=STATUS,
    )


def test_each_primitive_that_ran_has_a_row_with_its_median_and_the_nodes_in_it() -> None:
    calls = [
        [counter("norm", us), counter("relu", 0, kind="Relu", how="undef", ran=False)] for us in (1500, 9000, 2500)
    ]
    norm, relu = (GraphNode(node=n, op=n, source="model.py:9") for n in ("norm", "relu"))
    (row,) = read_counters(calls, {"norm": ["norm", "relu/aten.relu.default/Relu"]}, {"norm": norm, "relu": relu})
    assert (row.op, row.self_ms, row.source) == ("MVN (jit_f32)", 2.5, "model.py:9")
    assert row.nodes == [norm, relu]


def test_a_primitive_of_openvinos_own_making_holds_no_node() -> None:
    (row,) = read_counters([[counter("x_reorder", 7, kind="Reorder", how="undef")]], {}, {})
    assert (row.op, row.nodes, row.module) == ("Reorder", [], None)
