"""Linear layers and convolutions with constant weights, and what scaling their channels makes of the weights.

All algebra is in float64 and rounded once. Weights are [out, in] for a linear layer, [out, in / groups, *kernel] for a
convolution, [in, out / groups, *kernel] for a transposed one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import fx

from optimizer.optimizing.graph import Graph
from optimizer.optimizing.matching import constant_linear, skip_noops

aten = torch.ops.aten
LINEARS = (aten.linear, aten.matmul, aten.mm, aten.addmm)
CONVOLUTIONS = {aten.conv1d: 1, aten.conv2d: 2, aten.conv3d: 3}
TRANSPOSED = {aten.conv_transpose1d: 1, aten.conv_transpose2d: 2, aten.conv_transpose3d: 3}

_REGROUPS = (
    aten.view.default,
    aten.reshape.default,
    aten._unsafe_view.default,
    aten.flatten.using_ints,
    aten.unflatten.int,
    aten.unsqueeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
)


@dataclass(frozen=True)
class Layer:
    """`kernel` is the number of the weight's kernel dimensions: 0 for a linear layer."""

    node: fx.Node
    input: fx.Node
    weight: torch.Tensor
    bias: torch.Tensor | None
    kernel: int
    groups: int
    transposed: bool
    pads: bool

    @property
    def outputs(self) -> int:
        return self.weight.shape[1] * self.groups if self.transposed else self.weight.shape[0]

    @property
    def inputs(self) -> int:
        return self.weight.shape[0] if self.transposed else self.weight.shape[1] * self.groups

    def channel_dim(self, rank: int) -> int:
        """The dimension of input and output, both of this rank, that holds the channels."""
        return rank - 1 - self.kernel


@dataclass(frozen=True)
class Weights:
    weight: torch.Tensor
    bias: torch.Tensor | None


def constant_layer(graph: Graph, node: fx.Node) -> Layer | str | None:
    """The layer at this node; a reason when its weights are not constant; None when it is no layer."""
    if graph.is_op(node, *LINEARS):
        linear = constant_linear(graph, node)
        if linear is None or isinstance(linear, str):
            return linear
        return Layer(node, linear.input, linear.weight, linear.bias, 0, 1, transposed=False, pads=False)
    convolution = graph.is_op(node, aten.convolution)
    if not convolution and not graph.is_op(node, *CONVOLUTIONS, *TRANSPOSED):
        return None
    given = graph.arguments(node)
    weight = graph.constant_value(given["weight"])
    if weight is None:
        return f"the weight of {node.name} is not constant"
    bias = None if given["bias"] is None else graph.constant_value(given["bias"])
    if given["bias"] is not None and bias is None:
        return f"the bias of {node.name} is not constant"
    transposed = given["transposed"] if convolution else graph.is_op(node, *TRANSPOSED)
    padding = given["padding"]
    zero = padding == "valid" or (not isinstance(padding, str) and all(p == 0 for p in padding))
    return Layer(node, given["input"], weight, bias, weight.dim() - 2, given["groups"], transposed, not zero)


def input_of(graph: Graph, node: fx.Node) -> fx.Node | None:
    """What a linear layer or convolution reads, whether or not its weights are constant."""
    if not graph.is_op(node, *LINEARS, aten.convolution, *CONVOLUTIONS, *TRANSPOSED):
        return None
    source = node.args[1] if graph.is_op(node, aten.addmm) else node.args[0]
    return source if isinstance(source, fx.Node) else None


def with_scaled_output(layer: Layer, scale: torch.Tensor, shift: torch.Tensor) -> Weights | str:
    """Weights that give `scale * layer(x) + shift`, per output channel. Float64 of one element or one per channel."""
    scale, shift = scale.expand(layer.outputs), shift.expand(layer.outputs)
    weight = layer.weight.double()
    ones = [1] * layer.kernel
    if layer.transposed:
        grouped = weight.reshape(layer.groups, -1, *weight.shape[1:]) * scale.reshape(layer.groups, 1, -1, *ones)
        weight = grouped.reshape(weight.shape)
    else:
        weight = weight * scale.reshape(-1, 1, *ones)
    bias = shift if layer.bias is None else layer.bias.double() * scale + shift
    return _rounded(layer, weight, bias)


def with_scaled_input(layer: Layer, scale: torch.Tensor, shift: torch.Tensor) -> Weights | str:
    """Weights that give `layer(scale * x + shift)` of x, per input channel. A reason where padding is in the way:
    the zeros of the border are put in behind the shift."""
    scale, shift = scale.expand(layer.inputs), shift.expand(layer.inputs)
    weight = layer.weight.double()
    ones = [1] * layer.kernel
    shifts = bool((shift != 0).any())
    if layer.transposed and shifts:
        return f"{layer.node.name} is transposed: at its border a shift does not reach all of the kernel"
    if layer.pads and shifts:
        return f"{layer.node.name} pads its input with zeros, which the shift does not move"
    if layer.transposed:
        return _rounded(layer, weight * scale.reshape(-1, 1, *ones), _bias(layer))
    grouped = weight.reshape(layer.groups, -1, *weight.shape[1:])
    shift = (grouped * shift.reshape(layer.groups, 1, -1, *ones)).flatten(2).sum(2).reshape(-1)
    weight = (grouped * scale.reshape(layer.groups, 1, -1, *ones)).reshape(weight.shape)
    return _rounded(layer, weight, _bias(layer) + shift)


def _bias(layer: Layer) -> torch.Tensor:
    return torch.zeros(layer.outputs, dtype=torch.float64) if layer.bias is None else layer.bias.double()


def _rounded(layer: Layer, weight: torch.Tensor, bias: torch.Tensor) -> Weights | str:
    needless = layer.bias is None and not bool((bias != 0).any())
    rounded = weight.to(layer.weight.dtype)
    rounded_bias = None if needless else bias.to(layer.weight.dtype if layer.bias is None else layer.bias.dtype)
    for before, after in ((layer.weight, rounded), (layer.bias, rounded_bias)):
        if after is not None and not bool(after.isfinite().all()) and (before is None or bool(before.isfinite().all())):
            return f"the weights of {layer.node.name} would not be finite"
    return Weights(rounded, rounded_bias)


def rebuilt(graph: Graph, layer: Layer, source: fx.Node, weights: Weights) -> fx.Node:
    """The layer with other weights and another input of the same shape, in its place; nothing uses it yet."""
    node = layer.node
    constants = {"weight": graph.constant(weights.weight, f"{node.name}_weight"), "bias": None}
    if weights.bias is not None:
        constants["bias"] = graph.constant(weights.bias, f"{node.name}_bias")
    if layer.kernel == 0:
        return graph.call(aten.linear.default, source, constants["weight"], constants["bias"], before=node, like=node)
    assert isinstance(node.target, torch._ops.OpOverload)
    given = {**graph.arguments(node), "input": source, **constants}
    return graph.call(node.target, *given.values(), before=node, like=node)


def layer_before(graph: Graph, node: fx.Node, dim: int | None, user: fx.Node) -> Layer | str | None:
    """The layer whose output channels are dimension `dim` of `node`, which only `user` may read. With `dim` None
    whatever the operations between regroup does not matter: one number goes to all channels."""
    rank = len(graph.shape(node))
    dim = None if dim is None else dim % rank
    seen_by_others = None
    while True:
        if set(node.users) != {user}:
            seen_by_others = seen_by_others or node
        found = constant_layer(graph, node)
        if found is not None:
            break
        step = _step_back(graph, node, dim)
        if step is None:
            return None
        user, (node, dim) = node, step
    if isinstance(found, str):
        return found
    if dim is not None and dim != found.channel_dim(len(graph.shape(node))):
        return f"it runs over dimension {dim} of {node.name}, whose channels are another dimension"
    if seen_by_others is not None:
        return f"the output of {seen_by_others.name} has other users"
    return found


def _step_back(graph: Graph, node: fx.Node, dim: int | None) -> tuple[fx.Node, int | None] | None:
    source = node.args[0] if node.args else None
    if node.op != "call_function" or not isinstance(source, fx.Node) or not graph.is_tensor(source):
        return None
    if skip_noops(graph, node) is not node:
        return source, dim
    rank = len(graph.shape(node))
    if graph.is_op(node, aten.transpose.int):
        a, b = (int(d) % rank for d in node.args[1:3])  # type: ignore[arg-type]
        return source, None if dim is None else {a: b, b: a}.get(dim, dim)
    if graph.is_op(node, aten.permute.default):
        order: list[int] = list(node.args[1])  # type: ignore[arg-type]
        return source, None if dim is None else order[dim] % rank
    if dim is None and graph.is_op(node, *_REGROUPS):
        return source, None
    return None


def layers_behind(graph: Graph, node: fx.Node, dim: int | None) -> list[Layer] | str | None:
    """The layers that read `node`, their input channels along `dim` (None: any); a reason when something else reads
    it, too; None when no layer does."""
    found: list[Layer] = []
    miss = None
    pending = list(node.users)
    while pending:
        user = pending.pop(0)
        layer = constant_layer(graph, user)
        source = layer.input if isinstance(layer, Layer) else None
        if isinstance(layer, Layer) and source is not None and skip_noops(graph, source) is skip_noops(graph, node):
            rank = len(graph.shape(source))
            if dim is None or dim % rank == layer.channel_dim(rank):
                found.append(layer)
            else:
                miss = miss or f"it runs over dimension {dim}, which {user.name} does not sum over"
        elif isinstance(layer, str):
            miss = miss or layer
        elif skip_noops(graph, user) is not user:
            pending += user.users
        else:
            miss = miss or f"{user.name} needs it, too"
    near = bool(found) or any(input_of(graph, user) is not None for user in node.users)
    if not near:
        return None
    return miss if miss is not None else found
