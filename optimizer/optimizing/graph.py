"""The graph that passes rewrite: an undecomposed export, weights as constants, `meta["val"]` true on every node.

Not for training graphs, and not a general compiler IR: nodes are plain `torch.fx` nodes.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import ShapeEnv, has_free_unbacked_symbols, statically_known_true
from torch.utils import _pytree as pytree

from optimizer.optimizing.aliasing import functionalise, shares_memory, tainted
from optimizer.optimizing.reexport import export_again

aten = torch.ops.aten
Op: TypeAlias = torch._ops.OpOverload | torch._ops.OpOverloadPacket
Shape: TypeAlias = tuple[int | torch.SymInt, ...]

# Views and copies of constants that constant_value evaluates at once; hoist_constants does the rest.
_CONSTANT_VIEWS = {
    aten.t.default,
    aten.transpose.int,
    aten.permute.default,
    aten.view.default,
    aten.reshape.default,
    aten.unsqueeze.default,
    aten.squeeze.dim,
    aten.slice.Tensor,
    aten.select.int,
    aten.contiguous.default,
    aten.clone.default,
    aten.detach.default,
    aten.alias.default,
    aten.to.dtype,
    aten.lift_fresh_copy.default,
}
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


class ShapeChanged(RuntimeError):
    """A pass put a value of another shape or dtype in place of a value: a fault of the pass."""


class Graph:
    """Owns one unlifted GraphModule. Passes call its methods; `nodes`, `users` and `args` are torch.fx's own."""

    def __init__(self, exported: ExportedProgram, module: fx.GraphModule) -> None:
        self.exported = exported
        self.module = module
        vals = [n.meta["val"] for n in module.graph.nodes if "val" in n.meta]
        self.fake_mode = detect_fake_mode(pytree.tree_leaves(vals)) or FakeTensorMode(shape_env=ShapeEnv())
        self.promised: list[int] = []  # the inputs, by place, whose rows the workload promises to be equal
        self.relies_on_promise = False  # it is right for batches that keep the promise, and for no others
        self._tainted: set[fx.Node] | None = None

    # ---- in and out ------------------------------------------------------------------------------------------------

    @classmethod
    def from_exported(cls, exported: ExportedProgram) -> Graph:
        """Takes an undecomposed program apart. Assertions of what the trace fixed anyway are dropped."""
        module = exported.module()
        if not isinstance(module, fx.GraphModule):
            raise TypeError(f"an exported program gave a {type(module).__name__}")
        for node in list(module.graph.nodes):
            guards = node.op == "call_module" and node.target == "_guards_fn"
            # dtype and device are fixed by the trace; under another precision the assertion would be false
            if guards or node.target is aten._assert_tensor_metadata.default:
                module.graph.erase_node(node)
            elif node.target is aten._assert_scalar.default:  # of sizes that the data decides; it gives nothing
                node.meta.setdefault("val", None)
        functionalise(module.graph)
        graph = cls(exported, module)
        graph.sweep()
        return graph

    def copy(self) -> Graph:
        """The same nodes under the same names, to be rewritten apart; weights are shared."""
        nodes = fx.Graph()
        nodes.output(nodes.graph_copy(self.module.graph, {}))
        nodes._codegen = self.module.graph._codegen
        return Graph(self.exported, fx.GraphModule(self.module, nodes))

    def adopt(self, other: Graph) -> None:
        """Becomes what a copy was rewritten to."""
        self.module, self._tainted = other.module, None

    def to_exported(self) -> ExportedProgram:
        """A program with the original's inputs, dynamic dims and ranges. Raises `optimizing:ours:export-again`."""
        self.module.recompile()
        return export_again(self.exported, self.module)

    # ---- reading ---------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> list[fx.Node]:
        return list(self.module.graph.nodes)

    @property
    def inputs(self) -> list[fx.Node]:
        return [n for n in self.module.graph.nodes if n.op == "placeholder"]

    @property
    def outputs(self) -> list[fx.Node]:
        """The nodes that the graph hands back, in order."""
        output = next(n for n in self.module.graph.nodes if n.op == "output")
        return [n for n in pytree.tree_leaves(output.args) if isinstance(n, fx.Node)]

    def operations(self, *ops: Op) -> list[fx.Node]:
        """In graph order: the nodes of these operations, or all calls; never tainted ones."""
        calls = [n for n in self.module.graph.nodes if n.op == "call_function"]
        return [n for n in calls if not ops or self.is_op(n, *ops)]

    def is_op(self, node: object, *ops: Op) -> bool:
        """Whether a node calls one of these operations (a packet stands for all its overloads).

        False for tainted nodes (see `aliasing`): no pass may match what shares memory with an in-place write.
        """
        if not isinstance(node, fx.Node) or node.op != "call_function" or node in self.tainted:
            return False
        target = node.target
        packet = target.overloadpacket if isinstance(target, torch._ops.OpOverload) else None
        return any(target is op or packet is op for op in ops)

    @property
    def tainted(self) -> set[fx.Node]:
        if self._tainted is None:
            self._tainted = tainted(self.module.graph)
        return self._tainted

    def users(self, node: fx.Node) -> list[fx.Node]:
        return list(node.users)

    def value(self, node: fx.Node) -> Any:
        """The fake value: a FakeTensor with symbolic sizes, a SymInt, or a tuple of these."""
        return node.meta["val"]

    def shape(self, node: fx.Node) -> Shape:
        return tuple(node.meta["val"].shape)

    def dtype(self, node: fx.Node) -> torch.dtype:
        dtype: torch.dtype = node.meta["val"].dtype
        return dtype

    def is_tensor(self, node: object) -> bool:
        return isinstance(node, fx.Node) and isinstance(node.meta.get("val"), torch.Tensor)

    def same_shape(self, a: Sequence[int | torch.SymInt], b: Sequence[int | torch.SymInt]) -> bool:
        """Equal for every size that the dynamic dimensions may take."""
        return len(a) == len(b) and all(same_size(x, y) for x, y in zip(a, b, strict=True))

    def arguments(self, node: fx.Node) -> dict[str, Any]:
        """All arguments of a call by their schema's names, defaults filled in."""
        assert isinstance(node.target, torch._ops.OpOverload), node.target
        found: dict[str, Any] = {}
        for index, argument in enumerate(node.target._schema.arguments):
            named = node.kwargs.get(argument.name, argument.default_value)
            found[argument.name] = node.args[index] if index < len(node.args) else named
        return found

    def source(self, node: fx.Node) -> str | None:
        """The user's line, such as `model.py:41`: the innermost frame outside torch."""
        for path, line in reversed(_FRAME.findall(node.meta.get("stack_trace") or "")):
            if "-packages/torch/" not in path and not path.startswith(("torch/", "<")):
                return f"{path.rsplit('/', 1)[-1]}:{line}"
        return None

    # ---- constants -------------------------------------------------------------------------------------------------

    def constant_value(self, node: object) -> torch.Tensor | None:
        """The real tensor behind a weight or buffer, also through views; None when it is none, or is written."""
        if not isinstance(node, fx.Node) or node in self.tainted:
            return None
        if node.op == "get_attr":
            found: Any = self.module
            for name in str(node.target).split("."):
                found = getattr(found, name, None)
            return found.detach() if isinstance(found, torch.Tensor) else None
        if node.op != "call_function" or node.target not in _CONSTANT_VIEWS:
            return None
        values = {n: self.constant_value(n) for n in node.all_input_nodes}
        if any(v is None for v in values.values()):
            return None
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: values[n])
        with torch.no_grad():
            result: torch.Tensor = node.target(*args, **kwargs)
        return result

    def constant(self, tensor: torch.Tensor, name: str) -> fx.Node:
        """Registers a buffer and gives the node that reads it, at the top of the graph."""
        stem = "fuseworks_" + re.sub(r"\W", "_", name)
        target, count = stem, 0
        while hasattr(self.module, target):
            count += 1
            target = f"{stem}_{count}"
        self.module.register_buffer(target, tensor.detach().contiguous())
        first = next(iter(self.module.graph.nodes))
        with self.module.graph.inserting_before(first):
            node = self.module.graph.create_node("get_attr", target)
        node.meta["val"] = self.fake_mode.from_tensor(tensor.detach().contiguous(), static_shapes=True)
        return node

    # ---- writing ---------------------------------------------------------------------------------------------------

    def call(self, target: Op, *args: Any, before: fx.Node, like: fx.Node | None = None, **kwargs: Any) -> fx.Node:
        """Inserts a call before a node; its value is computed on fake values. `like` gives the source line."""
        if isinstance(target, torch._ops.OpOverloadPacket):
            target = target.default
        with self.module.graph.inserting_before(before):
            node = self.module.graph.call_function(target, args, kwargs)
        node.meta["val"] = self._run(node)
        for key in ("stack_trace", "nn_module_stack"):
            if like is not None and key in like.meta:
                node.meta[key] = like.meta[key]
        self._tainted = None
        return node

    def item(self, node: fx.Node, index: int, *, before: fx.Node, like: fx.Node | None = None) -> fx.Node:
        """Output `index` of an operation that gives several."""
        with self.module.graph.inserting_before(before):
            taken = self.module.graph.call_function(operator.getitem, (node, index))
        taken.meta["val"] = node.meta["val"][index]
        for key in ("stack_trace", "nn_module_stack"):
            if like is not None and key in like.meta:
                taken.meta[key] = like.meta[key]
        self._tainted = None
        return taken

    def size(self, node: fx.Node, dim: int, *, before: fx.Node) -> int | fx.Node:
        """The size of a dimension as an argument of a call: a number, or a node when it is dynamic."""
        size = self.shape(node)[dim]
        if isinstance(size, int):
            return size
        # of an input where one has that size: else the node would be kept alive for its shape
        for source in (*self.inputs, node):
            for index, other in enumerate(self.shape(source) if self.is_tensor(source) else ()):
                if not isinstance(other, int) and same_size(other, size):
                    return self.call(aten.sym_size.int, source, index, before=before)
        raise AssertionError("a tensor has its own size")

    def replace(self, old: fx.Node, new: fx.Node) -> None:
        """Lets `new` stand wherever `old` did. Raises ShapeChanged unless shape and dtype are provably equal."""
        before, after = pytree.tree_leaves(old.meta["val"]), pytree.tree_leaves(new.meta["val"])
        pairs = zip(before, after, strict=False)
        if len(before) != len(after) or not all(self._interchangeable(a, b) for a, b in pairs):
            raise ShapeChanged(f"{old.name} is {_brief(before)} but {new.name} is {_brief(after)}")
        old.replace_all_uses_with(new, delete_user_cb=lambda user: user is not new)
        self._tainted = None
        self._refresh(set(new.users))

    def hoist(self, node: fx.Node, before: fx.Node, never: Collection[fx.Node] = ()) -> bool:
        """Moves a node, with what it needs, in front of `before`. False, and nothing moved, when that needs `before`
        itself or one of `never`."""
        late, pending = set(), [node]
        while pending:
            one = pending.pop()
            if one is before or one in never or one in self.tainted:
                return False
            if one not in late and before < one:
                late.add(one)
                pending += one.all_input_nodes
        for one in sorted(late):
            before.prepend(one)
        return True

    def sweep(self) -> None:
        """Removes what nothing uses any more: nodes, and weights that no node reads."""
        self.module.graph.eliminate_dead_code(is_impure_node=self._has_effect)
        read = {str(n.target) for n in self.module.graph.nodes if n.op == "get_attr"}
        for path, owner in list(self.module.named_modules()):
            for name in [*owner._parameters, *owner._buffers]:
                if (f"{path}.{name}" if path else name) not in read:
                    delattr(owner, name)
        self._tainted = None

    def lint(self) -> None:
        """Raises when the graph is malformed or a node has no value."""
        self.module.graph.lint()
        for node in self.module.graph.nodes:
            if node.op == "call_function" and "val" not in node.meta:
                raise RuntimeError(f"{node.name} has no value")
        self.module.recompile()

    # ---- values ----------------------------------------------------------------------------------------------------

    def _run(self, node: fx.Node) -> Any:
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
        # the Python dispatcher: composite operations meet symbolic sizes here
        with self.fake_mode, enable_python_dispatcher(), torch.no_grad():
            return node.target(*args, **kwargs)  # type: ignore[operator]

    def _has_effect(self, node: fx.Node) -> bool:
        # torch counts attention and dropout as random, hence not removable, even where they draw nothing
        if node.op == "call_function" and node.target is aten.scaled_dot_product_attention.default:
            return bool(self.arguments(node)["dropout_p"])
        if node.op == "call_function" and node.target is aten.dropout.default:
            return bool(self.arguments(node)["train"])
        return bool(node.is_impure())

    @staticmethod
    def _interchangeable(a: Any, b: Any) -> bool:
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            same = len(a.shape) == len(b.shape) and all(same_size(x, y) for x, y in zip(a.shape, b.shape, strict=True))
            return same and a.dtype == b.dtype and a.device == b.device
        return type(a) is type(b) and bool(statically_known_true(a == b))

    def _refresh(self, stale: set[fx.Node]) -> None:
        """Recomputes the values of users whose input kept its shape but changed its strides."""
        for node in self.module.graph.nodes:
            known = all("val" in n.meta for n in (node, *node.all_input_nodes))
            if node not in stale or node.op != "call_function" or not known:
                continue
            before = node.meta["val"]
            if any(_has_data_dependent_size(v) for v in pytree.tree_leaves(before)):
                continue
            try:
                after = self._run(node)
            except (RuntimeError, ValueError):
                if node.target is not aten.view.default:
                    raise
                node.target = aten.reshape.default  # the view needed the old strides
                after = self._run(node)
            node.meta["val"] = after
            if not _same_layout(before, after):
                stale |= set(node.users)


def _has_data_dependent_size(value: Any) -> bool:
    return isinstance(value, torch.Tensor | torch.SymInt) and bool(has_free_unbacked_symbols(value))


def same_size(a: int | torch.SymInt, b: int | torch.SymInt) -> bool:
    return bool(statically_known_true(a == b))


def _same_layout(a: Any, b: Any) -> bool:
    pairs = zip(pytree.tree_leaves(a), pytree.tree_leaves(b), strict=True)
    return all(
        not isinstance(x, FakeTensor) or all(same_size(i, j) for i, j in zip(x.stride(), y.stride(), strict=True))
        for x, y in pairs
    )


def _brief(values: list[Any]) -> str:
    return ", ".join(f"{v.dtype} {tuple(v.shape)}" if isinstance(v, torch.Tensor) else str(v) for v in values)


__all__ = ["Graph", "Op", "Shape", "ShapeChanged", "same_size", "shares_memory"]
