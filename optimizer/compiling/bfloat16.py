"""Rewrites an exported program to compute in bfloat16; its inputs and outputs keep their dtypes.

What computes in it and where values are cast, `bfloat16_marks` says; weights are cast once. What a step names, by
operation or layer by layer, stays float32. Refuses operations that write in place into what it would have to cast, and
control flow.
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
from optimizer.compiling.bfloat16_marks import BFLOAT16, FLOAT32, LINEARS, mark, operation
from optimizer.compiling.kept import kept_layers
from optimizer.compiling.layers import bfloat16_layers
from optimizer.errors import FuseworksError
from optimizer.optimizing.graph import Graph
from optimizer.spec import KeepFloat32

aten = torch.ops.aten


def to_bfloat16(exported: ExportedProgram, keep_float32: KeepFloat32) -> ExportedProgram:
    """A new program; the given one is not changed. Raises FuseworksError `compiling:user:unsupported`."""
    return _Rewriting(functional(exported), keep_float32).run()


def functional(exported: ExportedProgram) -> ExportedProgram:
    """The program without operations that write in place."""
    if any(_mutates(node) for node in exported.graph_module.graph.nodes):
        return exported.run_decompositions({})  # decomposes nothing else
    return exported


class _Rewriting:
    """One pass over the nodes in order."""

    def __init__(self, exported: ExportedProgram, keep: KeepFloat32) -> None:
        import copy

        self.exported = exported
        self.module = copy.deepcopy(exported.graph_module)
        self.signature = copy.deepcopy(exported.graph_signature)
        self.state = dict(exported.state_dict)
        self.constants = dict(exported.constants)
        kept = self._last_linears(keep.last_linears) | self._named(keep)
        self.marks = mark(self.module.graph, keep.ops, kept)
        if keep.layers and not self.marks.computing:
            raise _unsupported("no operation that gains from it is left to be rewritten")
        self.casts: dict[tuple[fx.Node, torch.dtype], fx.Node] = {}
        self.weights = self._weights()
        if any(n.op == "get_attr" for n in self.module.graph.nodes):
            raise _unsupported("control flow inside the graph is not rewritten")

    def run(self) -> ExportedProgram:
        for node in list(self.module.graph.nodes):
            for given, dtype in self.marks.casts(node).items():
                node.replace_input_with(given, self._cast(given, dtype))
            if node.op == "output":
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

    def _last_linears(self, count: int) -> set[fx.Node]:
        linears = [n for n in self.module.graph.nodes if n.op == "call_function" and operation(n) in LINEARS]
        return set(linears[-count:]) if count else set()

    def _named(self, keep: KeepFloat32) -> set[fx.Node]:
        """The nodes of the layers that are kept by their shapes. `Graph` is another view of the program, in which nodes
        have the same names."""
        if not keep.layers:
            return set()
        layers = bfloat16_layers(Graph.from_exported(self.exported))
        places = kept_layers([layer.shape for layer in layers], KeepFloat32(layers=keep.layers))
        names = {layers[place].node.name for place in places}
        return {node for node in self.module.graph.nodes if node.name in names}

    # ---- writing ---------------------------------------------------------------------------------------------------

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
        for given in [n for n in pytree.tree_leaves(output.args) if isinstance(n, fx.Node) and n in self.marks.low]:
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


def _mutates(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _unsupported(text: str) -> FuseworksError:
    return FuseworksError("compiling:user:unsupported", engine="The rewrite to bfloat16", text=text)
