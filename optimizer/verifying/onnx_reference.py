"""The float64 reference of an ONNX model: upcast, then run by onnx's own ReferenceEvaluator.

Runtimes have no float64 kernels for most operations, so none of them can be the reference. Refuses operations that the
evaluator does not know (a runtime's own), naming them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

import optimizer.verifying.errors  # noqa: F401  (fills the catalogue)
from optimizer.errors import FuseworksError

LOW = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16})
TYPE_ATTRIBUTES = frozenset({"to", "dtype", "stash_type"})


class OnnxReference:
    """A contender that answers in float64. Made from a `.onnx`."""

    def __init__(self, path: Path) -> None:
        model = in_float64(onnx.load(path))
        initialised = {i.name for i in model.graph.initializer}
        self.inputs = [
            (i.name, len(i.type.tensor_type.shape.dim)) for i in model.graph.input if i.name not in initialised
        ]
        try:
            self.evaluator = ReferenceEvaluator(model)
        except (NotImplementedError, RuntimeError) as error:
            raise FuseworksError("verifying:user:no-reference", text=str(error), detail=repr(error)) from error

    def stage(self, arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
        staged = {}
        for (name, rank), array in zip(self.inputs, arrays, strict=True):
            raised = array.astype(np.float64) if array.dtype.kind == "f" else array.copy()
            staged[name] = raised.reshape(()) if rank == 0 else raised
        return staged

    def call(self, native: dict[str, np.ndarray]) -> list[Any]:
        with np.errstate(all="ignore"):
            return list(self.evaluator.run(None, native))

    def outputs(self, native: list[Any]) -> list[np.ndarray]:
        return [np.array(answer) for answer in native]

    def inputs_after(self, native: dict[str, np.ndarray]) -> list[np.ndarray]:
        return [native[name] for name, _ in self.inputs]


def in_float64(model: onnx.ModelProto) -> onnx.ModelProto:
    """Rewrites `model` in place; intermediate type annotations are dropped, because they would be wrong."""
    _raise_graph(model.graph)
    for function in model.functions:
        del function.value_info[:]
        _raise_nodes(function.node)
    return model


def _raise_graph(graph: onnx.GraphProto) -> None:
    for initializer in graph.initializer:
        _raise_tensor(initializer)
    for value in [*graph.input, *graph.output]:
        if value.type.tensor_type.elem_type in LOW:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    del graph.value_info[:]
    _raise_nodes(graph.node)


def _raise_nodes(nodes: Iterable[onnx.NodeProto]) -> None:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                _raise_tensor(attribute.t)
            elif attribute.type == AttributeProto.TENSORS:
                for tensor in attribute.tensors:
                    _raise_tensor(tensor)
            elif attribute.type == AttributeProto.GRAPH:
                _raise_graph(attribute.g)
            elif attribute.type == AttributeProto.GRAPHS:
                for graph in attribute.graphs:
                    _raise_graph(graph)
            elif attribute.name in TYPE_ATTRIBUTES and attribute.type == AttributeProto.INT and attribute.i in LOW:
                attribute.i = TensorProto.DOUBLE
        _replace_float_constant(node)


def _raise_tensor(tensor: onnx.TensorProto) -> None:
    if tensor.data_type in LOW:
        raised = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(raised, tensor.name))


def _replace_float_constant(node: onnx.NodeProto) -> None:
    """`Constant` with `value_float(s)` means float32 whatever stands around it."""
    if node.op_type != "Constant" or node.attribute[0].name not in {"value_float", "value_floats"}:
        return
    attribute = node.attribute[0]
    value = attribute.f if attribute.name == "value_float" else list(attribute.floats)
    tensor = numpy_helper.from_array(np.asarray(value, dtype=np.float64))
    attribute.CopyFrom(onnx.helper.make_attribute("value", tensor))
