"""Rewrites an exported program so that its linear layers multiply int8; inputs and outputs keep their dtypes.

Dynamic and symmetric: weights are rounded once, per output channel; inputs at each call, per row, so that no
calibration is needed and one large row costs the others nothing. Rows that hold no negative number, as behind a ReLU,
become uint8 and lose half as much. Products are summed in int32; everything between the layers stays as it was.
Of layers that are named so, the weights alone: their inputs become bfloat16, products are summed in float32. Faster
where few rows are multiplied and reading weights is all the work; far slower for many.
Refuses a graph in which no layer with constant float32 weights is left to be rewritten. Not for convolutions, attention
or tables.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx
from torch.export import ExportedProgram

import optimizer.compiling.errors  # noqa: F401
from optimizer.compiling.kept import Shape, kept_layers
from optimizer.errors import FuseworksError
from optimizer.optimizing.graph import Graph
from optimizer.optimizing.matching import ConstantLinear, constant_linear, skip_noops
from optimizer.spec import KeepFloat32, LayerShape

LARGEST, LARGEST_UNSIGNED = 127.0, 255.0
# a row of zeros must not be divided by zero; far below what any row that matters holds
LEAST_SCALE = 1e-30
# int32 holds so many products of 255 * 127
MOST_INPUTS = 2**31 // (255 * 127) - 1
# torch's product of bfloat16 and int8 reads blocks of inputs, and beyond the end of what is none
BLOCK_OF_INPUTS = 32
aten = torch.ops.aten
SHAPING = (aten.view.default, aten.reshape.default, aten.flatten.using_ints, aten.squeeze.dim, aten.unsqueeze.default)
# not aten.to: exporting that adds an assertion about its input
CONVERT = torch.ops.prims.convert_element_type.default
NOT_NEGATIVE = (
    aten.relu.default,
    aten.relu6.default,
    aten.sigmoid.default,
    aten.hardsigmoid.default,
    aten.softmax.int,
    aten.abs.default,
    aten.square.default,
    aten.exp.default,
)


def to_int8(
    exported: ExportedProgram, keep_float32: KeepFloat32, weight_only: Sequence[LayerShape] = ()
) -> ExportedProgram:
    """Raises FuseworksError `compiling:user:unsupported`, `optimizing:ours:export-again`."""
    graph = Graph.from_exported(exported)
    layers = linear_layers(graph)
    shapes = [Shape(*shape_of(layer)) for layer in layers]
    kept, by_weight = kept_layers(shapes, keep_float32), kept_layers(shapes, KeepFloat32(layers=list(weight_only)))
    chosen = [layer for place, layer in enumerate(layers) if place not in kept]
    if "linear" in keep_float32.ops or not chosen:
        raise _unsupported("no linear layer with constant float32 weights is left to be rewritten")
    rounded: dict[fx.Node, tuple[fx.Node, fx.Node]] = {}
    with torch.no_grad():
        for place, layer in enumerate(layers):
            if place in kept:
                continue
            if place in by_weight:
                _rewrite_weight(graph, layer)
            else:
                _rewrite(graph, layer, rounded)
        graph.sweep()
        graph.lint()
        return graph.to_exported()


def may_be_weight_only(inputs: int) -> bool:
    return inputs % BLOCK_OF_INPUTS == 0


def linear_layers(graph: Graph) -> list[ConstantLinear]:
    """Those that may become int8, in the order of the graph."""
    found = []
    for node in graph.operations():
        layer = constant_linear(graph, node)
        if not isinstance(layer, ConstantLinear) or layer.weight.shape[1] > MOST_INPUTS:
            continue
        if layer.weight.dtype == graph.dtype(layer.input) == torch.float32:
            found.append(layer)
    return found


def shape_of(layer: ConstantLinear) -> tuple[int, int]:
    """Inputs, outputs."""
    outputs, inputs = layer.weight.shape
    return int(inputs), int(outputs)


def rounded_weight(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[out, in] in int8, and the scale of each output channel."""
    scale = (weight.abs().amax(1) / LARGEST).clamp_min(LEAST_SCALE)
    return torch.round(weight / scale[:, None]).to(torch.int8), scale


def rounded_weight_only(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[out, in] in int8, and the scale of each output channel in bfloat16: one that bfloat16 has, so that the weights
    are rounded with the very scale that they are multiplied by."""
    exact = (weight.abs().amax(1) / LARGEST).clamp_min(LEAST_SCALE)
    scale = (exact * (1 + 2.0**-7)).bfloat16()  # rounded, it is no less than the exact one
    return torch.round(weight / scale.float()[:, None]).to(torch.int8), scale


def rounded_rows(rows: torch.Tensor, unsigned: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows as whole numbers, still floats, and the scale of each: what `_rounded` writes into a graph.

    A row with a NaN or an infinity in it has a scale of that kind, so that its products are NaN and not silent numbers.
    """
    peak = rows.amax(-1, keepdim=True) if unsigned else rows.abs().amax(-1, keepdim=True)
    scale = (peak * (1.0 / (LARGEST_UNSIGNED if unsigned else LARGEST))).clamp_min(LEAST_SCALE)
    return torch.round(rows / scale), scale


def never_negative(graph: Graph, node: fx.Node) -> bool:
    """Whether an input of a layer holds no negative number, whatever the model is given."""
    while graph.is_op(node, *SHAPING):
        (node, *_) = node.all_input_nodes
    return graph.is_op(skip_noops(graph, node), *NOT_NEGATIVE)


def rounding_of(nodes: fx.Graph) -> set[fx.Node]:
    """What `_rounded` wrote in front of the products of a graph: in bfloat16 a row would be rounded twice."""
    found: set[fx.Node] = set()
    for product in nodes.find_nodes(op="call_function", target=aten._int_mm.default):
        node = product.args[0]
        for target in (CONVERT, aten.round.default, aten.div.Tensor):
            if not isinstance(node, fx.Node) or node.target is not target:
                break
            found.add(node)
            rows, node = node.args[0], node.args[-1] if target is aten.div.Tensor else node.args[0]
        else:
            while isinstance(node, fx.Node) and node is not rows:
                found.add(node)
                node = node.args[0]
    return found


def _rewrite_weight(graph: Graph, layer: ConstantLinear) -> None:
    """Weights in int8, products in bfloat16, the bias in float32."""
    node, source = layer.node, layer.input
    inputs, outputs = shape_of(layer)
    if not may_be_weight_only(inputs):
        raise _unsupported(
            f"weights alone in int8 want a multiple of {BLOCK_OF_INPUTS} inputs, and a layer has {inputs}"
        )
    weight, scale = rounded_weight_only(layer.weight)

    def call(target: object, *args: object) -> fx.Node:
        return graph.call(target, *args, before=node, like=node)  # type: ignore[arg-type]

    rank = len(graph.shape(source))
    rows = call(aten.reshape.default, source, [-1, inputs]) if rank > 2 else source
    # the product reads its rows without their strides
    low = call(aten.contiguous.default, call(CONVERT, rows, torch.bfloat16))
    constants = graph.constant(weight, f"{node.name}_int8"), graph.constant(scale, f"{node.name}_scale")
    result = call(CONVERT, call(aten._weight_int8pack_mm.default, low, *constants), torch.float32)
    if layer.bias is not None:
        result = call(aten.add.Tensor, result, graph.constant(layer.bias, f"{node.name}_bias"))
    if rank > 2:
        sizes = [graph.size(source, dim, before=node) for dim in range(rank - 1)]
        result = call(aten.reshape.default, result, [*sizes, outputs])
    graph.replace(node, result)


def _rewrite(graph: Graph, layer: ConstantLinear, rounded: dict[fx.Node, tuple[fx.Node, fx.Node]]) -> None:
    """`rounded`: what was done to an input that several layers read."""
    node, source = layer.node, layer.input
    inputs, outputs = shape_of(layer)
    if source not in rounded:
        rounded[source] = _rounded(graph, source, inputs)
    rows, scale = rounded[source]
    weight, weight_scale = rounded_weight(layer.weight)

    def call(target: object, *args: object) -> fx.Node:
        return graph.call(target, *args, before=node, like=node)  # type: ignore[arg-type]

    product = call(aten._int_mm.default, rows, graph.constant(weight.t(), f"{node.name}_int8"))
    # The scales first: in a product times one scale times the other, Inductor finds a pattern that it replaces by
    # oneDNN's qlinear over signed rows, which runs a reference implementation, a thousand times as slow.
    scales = call(aten.mul.Tensor, scale, graph.constant(weight_scale, f"{node.name}_scale"))
    result = call(aten.mul.Tensor, call(CONVERT, product, torch.float32), scales)
    if layer.bias is not None:
        result = call(aten.add.Tensor, result, graph.constant(layer.bias, f"{node.name}_bias"))
    rank = len(graph.shape(source))
    if rank > 2:
        sizes = [graph.size(source, dim, before=node) for dim in range(rank - 1)]
        result = call(aten.reshape.default, result, [*sizes, outputs])
    graph.replace(node, result)


def _rounded(graph: Graph, source: fx.Node, inputs: int) -> tuple[fx.Node, fx.Node]:
    """The input as rows [n, inputs] of int8 or uint8, and each one's scale [n, 1]; right behind where it comes from."""
    after = source.next
    while after.op in {"placeholder", "get_attr"}:
        after = after.next

    def call(target: object, *args: object) -> fx.Node:
        return graph.call(target, *args, before=after, like=source)  # type: ignore[arg-type]

    unsigned = never_negative(graph, source)
    rows = source if len(graph.shape(source)) == 2 else call(aten.reshape.default, source, [-1, inputs])
    peak = call(aten.amax.default, rows if unsigned else call(aten.abs.default, rows), [-1], True)
    largest = LARGEST_UNSIGNED if unsigned else LARGEST
    scale = call(aten.clamp_min.default, call(aten.mul.Scalar, peak, 1.0 / largest), LEAST_SCALE)
    whole = call(aten.round.default, call(aten.div.Tensor, rows, scale))
    return call(CONVERT, whole, torch.uint8 if unsigned else torch.int8), scale


def _unsupported(text: str) -> FuseworksError:
    return FuseworksError("compiling:user:unsupported", engine="The rewrite to int8", text=text)
