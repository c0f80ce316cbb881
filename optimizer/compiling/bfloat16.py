"""Rewrites an exported program to compute in bfloat16; its inputs and outputs keep their dtypes.

Matrix products, convolutions, attention and table look-ups take bfloat16, their weights cast once. What merely moves or
combines values between them goes on in the dtype that it gets; after the last of them it is float32, because a sigmoid
near 0.5 has a step of 0.004 in bfloat16. Everything else, norms, softmax and reductions first of all, is computed in
float32; so is what rounds to int8, where layers were rewritten to that before. Refuses operations that write in place
into what it would have to cast, and control flow.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, TensorArgument
from torch.utils import _pytree as pytree

import optimizer.compiling.errors  # noqa: F401
from optimizer.compiling.int8 import rounding_of
from optimizer.errors import FuseworksError
from optimizer.spec import KeepFloat32

LINEARS = frozenset({"linear", "addmm", "mm", "baddbmm", "addbmm"})
COMPUTE = LINEARS | {
    "matmul", "bmm", "einsum", "mv", "bilinear",
    "conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "embedding", "embedding_bag", "_embedding_bag", "scaled_dot_product_attention",
}  # fmt: skip
# Ops that carry values on: reading, shaping and combining. Their result is bfloat16 when all they combine is.
CARRY = frozenset({
    "view", "reshape", "permute", "transpose", "t", "unsqueeze", "squeeze", "expand", "expand_as", "repeat",
    "flatten", "unflatten", "slice", "select", "narrow", "index", "index_select", "gather", "split",
    "split_with_sizes", "chunk", "unbind", "getitem", "cat", "stack", "contiguous", "clone", "alias", "detach",
    "movedim", "swapaxes", "flip", "roll", "pad", "constant_pad_nd", "tril", "triu", "diagonal", "dropout",
    "view_as", "reshape_as", "_unsafe_view", "numpy_T", "add", "sub", "mul", "div", "rsub", "neg", "abs",
    "relu", "gelu", "silu", "tanh", "sigmoid", "leaky_relu", "elu", "hardtanh", "hardswish", "clamp",
    "clamp_min", "clamp_max", "maximum", "minimum", "where", "masked_fill", "max_pool1d", "max_pool2d", "amax",
    "amin",
})  # fmt: skip
BFLOAT16 = torch.bfloat16
FLOAT32 = torch.float32
aten = torch.ops.aten


def to_bfloat16(exported: ExportedProgram, keep_float32: KeepFloat32) -> ExportedProgram:
    """A new program; the given one is not changed. Raises FuseworksError `compiling:user:unsupported`."""
    if any(_mutates(node) for node in exported.graph_module.graph.nodes):
        exported = exported.run_decompositions({})  # decomposes nothing, and makes in-place operations functional
    rewriting = _Rewriting(exported, keep_float32)
    return rewriting.run()


class _Rewriting:
    """One pass over the nodes in order. `low` are nodes whose float32 values have become bfloat16."""

    def __init__(self, exported: ExportedProgram, keep: KeepFloat32) -> None:
        import copy

        self.exported = exported
        self.module = copy.deepcopy(exported.graph_module)
        self.signature = copy.deepcopy(exported.graph_signature)
        self.state = dict(exported.state_dict)
        self.constants = dict(exported.constants)
        self.keep_ops = frozenset(keep.ops)
        self.kept = self._last_linears(keep.last_linears)
        self.feeding = self._feeding()
        self.exact = rounding_of(self.module.graph)
        self.low: set[fx.Node] = set()
        self.casts: dict[tuple[fx.Node, torch.dtype], fx.Node] = {}
        self.weights = self._weights()
        if any(n.op == "get_attr" for n in self.module.graph.nodes):
            raise _unsupported("control flow inside the graph is not rewritten")

    def run(self) -> ExportedProgram:
        for node in list(self.module.graph.nodes):
            if node.op == "call_function":
                self._rewrite(node)
            elif node.op == "output":
                self._restore_outputs(node)
        self._cast_weights()
        self.module.graph.lint()
        self.module.recompile()
        self._refresh_values()
        return ExportedProgram(
            root=self.module,
            graph=self.module.graph,
            graph_signature=self.signature,
            state_dict=self.state,
            range_constraints=self.exported.range_constraints,
            module_call_graph=self.exported.module_call_graph,
            example_inputs=self.exported.example_inputs,
            constants=self.constants,
            verifiers=self.exported.verifiers,
        )

    # ---- choosing --------------------------------------------------------------------------------------------------

    def _rewrite(self, node: fx.Node) -> None:
        name = _name(node)
        inputs = [n for n in node.all_input_nodes if _is_float32(n)]
        if not inputs:
            return
        kept = name in self.keep_ops or node in self.kept
        if name in COMPUTE and not kept:
            self._cast_inputs(node, inputs, BFLOAT16)
            if _is_float32(node):
                self.low.add(node)
        elif name in CARRY and not kept and node in self.feeding and node not in self.exact:
            # a scalar tensor takes part without deciding the dtype, as in torch's own promotion
            deciding = [n for n in inputs if not _is_scalar(n)] or inputs
            if all(n in self.low for n in deciding) and _is_float32(node):
                self.low.add(node)
        else:
            self._cast_inputs(node, [n for n in inputs if n in self.low], FLOAT32)

    def _feeding(self) -> set[fx.Node]:
        """Nodes from which a path leads to an operation that will compute in bfloat16."""
        found: set[fx.Node] = set()
        for node in reversed(self.module.graph.nodes):
            lowered = (u for u in node.users if _name(u) in COMPUTE - self.keep_ops and u not in self.kept)
            if any(lowered) or any(user in found for user in node.users):
                found.add(node)
        return found

    def _last_linears(self, count: int) -> set[fx.Node]:
        linears = [n for n in self.module.graph.nodes if n.op == "call_function" and _name(n) in LINEARS]
        return set(linears[-count:]) if count else set()

    # ---- writing ---------------------------------------------------------------------------------------------------

    def _cast_inputs(self, node: fx.Node, inputs: list[fx.Node], dtype: torch.dtype) -> None:
        for given in inputs:
            if (given in self.low) != (dtype is BFLOAT16):
                node.replace_input_with(given, self._cast(given, dtype))

    def _cast(self, node: fx.Node, dtype: torch.dtype) -> fx.Node:
        if (node, dtype) not in self.casts:
            graph = self.module.graph
            after = node
            if node.op == "placeholder":  # all placeholders come before the first call
                after = [n for n in graph.nodes if n.op == "placeholder"][-1]
            with graph.inserting_after(after):
                cast = graph.call_function(aten.to.dtype, (node, dtype))
            cast.meta = {k: v for k, v in node.meta.items() if k in {"stack_trace", "nn_module_stack"}}
            cast.meta["val"] = node.meta["val"]
            self.casts[node, dtype] = cast
        return self.casts[node, dtype]

    def _restore_outputs(self, output: fx.Node) -> None:
        by_name = {spec.arg.name: spec for spec in self.signature.output_specs if isinstance(spec.arg, TensorArgument)}
        for given in [n for n in pytree.tree_leaves(output.args) if isinstance(n, fx.Node) and n in self.low]:
            cast = self._cast(given, FLOAT32)
            output.replace_input_with(given, cast)
            if given.name in by_name:
                by_name[given.name].arg = TensorArgument(name=cast.name)

    def _weights(self) -> dict[fx.Node, Any]:
        """Placeholders that stand for parameters, buffers and constants, with their input specs."""
        nodes = {n.name: n for n in self.module.graph.nodes if n.op == "placeholder"}
        kinds = {InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR}
        return {nodes[spec.arg.name]: spec for spec in self.signature.input_specs if spec.kind in kinds}

    def _cast_weights(self) -> None:
        """A weight that is only used in bfloat16 is stored so; one also used in float32 is cast at each call."""
        for node, spec in self.weights.items():
            cast = self.casts.get((node, BFLOAT16))
            if (
                cast is None
                or set(node.users) != {cast}
                or spec.target in set(self.signature.buffers_to_mutate.values())
            ):
                continue
            store = self.state if spec.target in self.state else self.constants
            weight = store[spec.target].detach().to(BFLOAT16)
            parameter = isinstance(store[spec.target], torch.nn.Parameter)
            store[spec.target] = torch.nn.Parameter(weight, requires_grad=False) if parameter else weight
            cast.replace_all_uses_with(node)
            self.module.graph.erase_node(cast)
            mode = detect_fake_mode([node.meta["val"]])
            assert mode is not None
            with mode:
                node.meta["val"] = node.meta["val"].to(BFLOAT16)

    def _refresh_values(self) -> None:
        """Recomputes `meta["val"]` with the program's own symbols."""
        from torch.fx.passes.fake_tensor_prop import FakeTensorProp

        placeholders = [n.meta["val"] for n in self.module.graph.nodes if n.op == "placeholder"]
        mode = detect_fake_mode([v for v in placeholders if isinstance(v, torch.Tensor)])
        try:
            with torch.no_grad():
                FakeTensorProp(self.module, mode).propagate_dont_convert_inputs(*placeholders)
        except Exception as error:  # an operation without a bfloat16 kernel, or one that wants equal dtypes
            raise _unsupported(f"{type(error).__name__}: {error}"[:600]) from error


def _name(node: fx.Node) -> str:
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return target.overloadpacket.__name__
    return getattr(target, "__name__", str(target))


def _is_float32(node: fx.Node) -> bool:
    """Whether its floating values were float32 before the rewrite (`meta["val"]` is refreshed last)."""
    leaves = [v for v in pytree.tree_leaves(node.meta.get("val")) if isinstance(v, torch.Tensor)]
    floating = [v for v in leaves if v.dtype.is_floating_point]
    return bool(floating) and all(v.dtype == FLOAT32 for v in floating)


def _is_scalar(node: fx.Node) -> bool:
    value = node.meta["val"]
    return isinstance(value, torch.Tensor) and value.dim() == 0


def _mutates(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _unsupported(text: str) -> FuseworksError:
    return FuseworksError("compiling:user:unsupported", engine="The rewrite to bfloat16", text=text)
