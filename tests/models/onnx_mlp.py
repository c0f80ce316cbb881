"""A small ranker as an ONNX model: two tables, one column of ids each, and a two-layer tower."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def ranker(*, dense: int = 4, rows: tuple[int, ...] = (20, 50), dim: int = 8, hidden: int = 16) -> onnx.ModelProto:
    """Inputs `dense [batch, dense]` and `ids [batch, tables]`, output `score [batch, 1]`; weights are seeded."""
    random = np.random.default_rng(0)
    weights: dict[str, np.ndarray] = {"axis_1": np.array([1])}
    nodes, parts = [], ["dense"]
    for column, count in enumerate(rows):
        weights[f"column_{column}"] = np.array([column])
        weights[f"table_{column}"] = random.standard_normal((count, dim), np.float32)
        nodes += [
            helper.make_node("Gather", ["ids", f"column_{column}"], [f"pair_{column}"], axis=1),
            helper.make_node("Squeeze", [f"pair_{column}", "axis_1"], [f"id_{column}"]),
            helper.make_node("Gather", [f"table_{column}", f"id_{column}"], [f"embedded_{column}"], axis=0),
        ]
        parts.append(f"embedded_{column}")
    nodes.append(helper.make_node("Concat", parts, ["features"], axis=1))
    width, value = dense + dim * len(rows), "features"
    for layer, size in enumerate((hidden, 1)):
        weights[f"weight_{layer}"] = (random.standard_normal((width, size)) / width**0.5).astype(np.float32)
        weights[f"bias_{layer}"] = np.zeros(size, np.float32)
        nodes.append(helper.make_node("Gemm", [value, f"weight_{layer}", f"bias_{layer}"], [f"linear_{layer}"]))
        width, value = size, f"linear_{layer}"
        if layer == 0:
            nodes.append(helper.make_node("Relu", [value], ["hidden"]))
            value = "hidden"
    nodes.append(helper.make_node("Sigmoid", [value], ["score"]))
    graph = helper.make_graph(
        nodes,
        "ranker",
        [
            helper.make_tensor_value_info("dense", TensorProto.FLOAT, ["batch", dense]),
            helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", len(rows)]),
        ],
        [helper.make_tensor_value_info("score", TensorProto.FLOAT, ["batch", 1])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
