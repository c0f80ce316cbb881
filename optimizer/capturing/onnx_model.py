"""Captures an `.onnx`: checked, shapes inferred, dynamic dimensions named, the workload filled.

Refuses custom operations, weights that are not there and models beyond 2 GB. Nothing of the model is run here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import onnx_ir
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import GraphProto, ModelProto, NodeProto, TensorProto
from onnx.external_data_helper import load_external_data_for_model
from onnx_ir.passes.common import ShapeInferencePass

import optimizer.capturing.errors  # noqa: F401
from optimizer.capturing.onnx_ids import id_limits
from optimizer.capturing.workload_document import parse_workload
from optimizer.children.session import Session
from optimizer.errors import FuseworksError
from optimizer.spec import Dim, InputSpec, Values, Workload

OPSETS = (9, onnx.defs.onnx_opset_version())
IR_VERSIONS = (3, onnx.IR_VERSION)
STANDARD_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml"})
LARGEST_BYTES = (1 << 31) - 1
DTYPES = {
    TensorProto.FLOAT: "float32",
    TensorProto.DOUBLE: "float64",
    TensorProto.FLOAT16: "float16",
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.INT64: "int64",
    TensorProto.INT32: "int32",
    TensorProto.INT16: "int16",
    TensorProto.INT8: "int8",
    TensorProto.UINT8: "uint8",
    TensorProto.BOOL: "bool",
}
# assumed for dimensions of which the file gives the name only
BATCH_SIZE, OTHER_SIZE, LARGEST_SIZE = 64, 128, 2048
RANDOM = frozenset({
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli",
})  # fmt: skip


def capture_onnx(session: Session, upload: Path, workload: Any) -> dict[str, Any]:
    """Sends `captured.onnx`. Raises FuseworksError."""
    model = _loaded(upload)
    _inputs(model.graph)  # before the checker, which does not name the input
    model = _inferred(_checked(model))
    given = parse_workload(workload, "workload", no_training="an .onnx") if workload is not None else None
    specs, dims = _inputs(model.graph)
    notes = []
    if given is not None:
        specs, dims = _given(given, specs)
    elif dims:
        sizes = ", ".join(f"{name} = {dim.serve[0]}" for name, dim in dims.items())
        notes.append(f"An ONNX file names sizes but does not tell them; assumed: {sizes}")
    limits = id_limits(model, {s.name: [dims[d].serve[0] if isinstance(d, str) else d for d in s.shape] for s in specs})
    for spec in specs:
        beyond = spec.beyond(limits.get(spec.name) or [])
        if beyond is not None:
            raise FuseworksError("capturing:user:workload-mismatch", place="workload", text=beyond)
    specs = [_filled(spec, limits.get(spec.name)) for spec in specs]
    filled = given.model_copy(update={"inputs": specs}) if given else Workload(inputs=specs, dims=dims)
    path = session.scratch / "captured.onnx"
    path.write_bytes(model.SerializeToString())
    session.send_file("captured.onnx", path)
    inspection = {**_inspection(model, dims, notes), "id_rows": limits}
    return {"workload": filled.model_dump(by_alias=True, mode="json"), "inspection": inspection}


def _loaded(upload: Path) -> ModelProto:
    try:
        model = onnx.load(str(upload), load_external_data=False)
    except (DecodeError, OSError, ValueError) as error:
        raise FuseworksError("capturing:user:onnx-invalid", text=str(error)[:300]) from error
    outside = [t for t in model.graph.initializer if t.data_location == TensorProto.EXTERNAL]
    size = sum(int(entry.value) for t in outside for entry in t.external_data if entry.key == "length")
    if size > LARGEST_BYTES:
        raise FuseworksError("capturing:user:onnx-external-data", text=f"{size:,} bytes of them")
    try:
        load_external_data_for_model(model, str(upload.parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        text = f"{len(outside)} tensors, {outside[0].name!r} among them"
        raise FuseworksError("capturing:user:onnx-external-data", text=text, detail=str(error)) from error
    return model


def _checked(model: ModelProto) -> ModelProto:
    _check_version("IR version", model.ir_version, IR_VERSIONS)
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx"):
            _check_version("opset", opset.version, OPSETS)
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    custom = Counter(
        f"{node.domain or 'ai.onnx'}.{node.op_type}" for node in nodes_of(model.graph) if not _standard(node)
    )
    if custom:
        first = next(node for node in nodes_of(model.graph) if not _standard(node))
        names = ", ".join(custom)
        raise FuseworksError("capturing:user:onnx-custom-operations", place=first.name or first.op_type, names=names)
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise FuseworksError("capturing:user:onnx-invalid", text=" ".join(str(error).split())[:500]) from error
    return model


def _check_version(what: str, version: int, allowed: tuple[int, int]) -> None:
    low, high = allowed
    if not low <= version <= high:
        raise FuseworksError("capturing:user:onnx-version", what=what, version=version, low=low, high=high)


def _standard(node: NodeProto) -> bool:
    domain = "" if node.domain == "ai.onnx" else node.domain
    return domain in STANDARD_DOMAINS and onnx.defs.has(node.op_type, domain)


def nodes_of(graph: GraphProto) -> Iterator[NodeProto]:
    """Every node, those of nested graphs (If, Loop, Scan) too."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from nodes_of(inner)


def _inferred(model: ModelProto) -> ModelProto:
    """With the shapes of every value, as passes and backends want them."""
    result = ShapeInferencePass()(onnx_ir.from_proto(model))
    inferred = onnx_ir.to_proto(result.model)
    if inferred.ByteSize() > LARGEST_BYTES:
        raise FuseworksError("capturing:user:onnx-external-data", text="with them it is larger than 2 GB")
    return inferred


def _inputs(graph: GraphProto) -> tuple[list[InputSpec], dict[str, Dim]]:
    initialised = {tensor.name for tensor in graph.initializer}
    specs: list[InputSpec] = []
    dims: dict[str, Dim] = {}
    for value in graph.input:
        if value.name in initialised:
            continue
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            raise FuseworksError("capturing:user:onnx-input", place=value.name, name=value.name, what=f"a {kind}")
        tensor = value.type.tensor_type
        dtype = DTYPES.get(tensor.elem_type)
        if dtype is None or not tensor.HasField("shape"):
            kind = TensorProto.DataType.Name(tensor.elem_type).lower()
            what = f"a tensor of {kind}, which a workload cannot hold" if dtype is None else "of unknown rank"
            raise FuseworksError("capturing:user:onnx-input", place=value.name, name=value.name, what=what)
        shape = [_dim(size, axis, value.name) for axis, size in enumerate(tensor.shape.dim)]
        for axis, dim in enumerate(shape):
            if isinstance(dim, str):
                dims.setdefault(dim, Dim(serve=[OTHER_SIZE if axis else BATCH_SIZE], min=1, max=LARGEST_SIZE))
        specs.append(InputSpec(name=value.name, dtype=dtype, shape=shape))
    if not specs:
        raise FuseworksError("capturing:user:onnx-invalid", text="it has no inputs")
    return specs, dims


def _dim(size: Any, axis: int, name: str) -> int | str:
    if size.HasField("dim_value"):
        return int(size.dim_value)
    return str(size.dim_param) or ("batch" if axis == 0 else f"{name}_dim{axis}")


def _given(given: Workload, found: list[InputSpec]) -> tuple[list[InputSpec], dict[str, Dim]]:
    """The user's inputs, which must be the model's: an ONNX model knows its inputs by name."""

    def refuse(text: str) -> FuseworksError:
        return FuseworksError("capturing:user:workload-mismatch", place="workload", text=text)

    wanted, has = [s.name for s in given.inputs], [s.name for s in found]
    if wanted != has:
        raise refuse(f"its inputs are {', '.join(wanted)}, those of the model {', '.join(has)}")
    for spec, actual in zip(given.inputs, found, strict=True):
        fits = len(spec.shape) == len(actual.shape) and all(
            isinstance(has, str) or has == want for want, has in zip(spec.shape, actual.shape, strict=True)
        )
        if spec.dtype != actual.dtype or not fits:
            there = f"in the model {actual.dtype} {actual.shape}"
            raise refuse(f"input {spec.name!r} is {spec.dtype} {spec.shape}, {there}")
    return list(given.inputs), dict(given.dims)


def _filled(spec: InputSpec, limits: list[int | None] | None) -> InputSpec:
    if spec.dtype == "bool" or "float" in spec.dtype or (spec.values is not None and spec.values.below is not None):
        return spec
    known = [rows for rows in limits or [] if rows is not None]
    if limits and len(known) == len(limits) and len(set(known)) > 1:
        below: int | list[int] = known
    else:
        below = min(known, default=2)
    values = spec.values.model_copy(update={"below": below}) if spec.values else Values(below=below)
    return spec.model_copy(update={"values": values})


def _inspection(model: ModelProto, dims: dict[str, Dim], notes: list[str]) -> dict[str, Any]:
    weights = [onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer]
    real = [w for w in weights if np.issubdtype(w.dtype, np.inexact) or w.dtype.name == "bfloat16"]
    counts = Counter(node.op_type for node in nodes_of(model.graph))
    drawn = sorted(RANDOM & set(counts))
    notes = [*notes, f"{len(weights)} initialisers", *(f"Draws random numbers in inference: {op}" for op in drawn)]
    outputs = []
    for index, value in enumerate(model.graph.output):
        tensor = value.type.tensor_type
        sizes = tensor.shape.dim
        shape = [int(s.dim_value) if s.HasField("dim_value") else str(s.dim_param) or "?" for s in sizes]
        dtype = DTYPES.get(tensor.elem_type, TensorProto.DataType.Name(tensor.elem_type).lower())
        outputs.append({"name": value.name or f"out{index}", "dtype": dtype, "shape": shape})
    return {
        "parameters": sum(w.size for w in real),
        "parameter_bytes": sum(w.nbytes for w in weights),
        "operations": dict(counts.most_common()),
        "outputs": outputs,
        "dynamic": [name for name, dim in dims.items() if dim.min < dim.max],
        "notes": notes,
    }
