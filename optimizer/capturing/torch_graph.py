"""Reads and normalises a captured program: flat positional inputs under the workload's names, flat outputs; which
operations it has, which draw random numbers, which write into a buffer or an input."""

from __future__ import annotations

import re
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallSignature
from torch.export.graph_signature import InputKind, TensorArgument
from torch.utils import _pytree as pytree

import optimizer.capturing.errors  # noqa: F401
from optimizer.errors import FuseworksError

READS_VALUES = frozenset({"aten.item", "aten._local_scalar_dense"})


@dataclass(frozen=True)
class Write:
    """An operation that writes into something that outlives the call."""

    kind: InputKind
    target: str
    node: fx.Node | None


def user_placeholders(program: ExportedProgram) -> list[fx.Node]:
    by_name = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    return [by_name[name] for name in program.graph_signature.user_inputs]


def normalise(program: ExportedProgram, names: list[str]) -> None:
    """In place: inputs become one flat positional list called `names`, outputs a tensor or a flat tuple.

    A structure such as transformers' ModelOutput would need its library at load time in every child.
    """
    signature = program.module_call_graph[0].signature
    assert signature is not None
    accessors = _accessors(signature)
    _name_inputs(program, names)
    _rewrite_guards(program, accessors)
    args, kwargs = program.example_inputs if program.example_inputs is not None else (None, None)
    if signature.out_spec.type is not None:
        signature.out_spec = pytree.tree_structure(tuple(range(signature.out_spec.num_leaves)))
    signature.in_spec = pytree.tree_structure((tuple(range(len(names))), {}))
    signature.forward_arg_names = [n.name for n in user_placeholders(program)]
    if args is not None:
        program.example_inputs = (tuple(pytree.tree_leaves((args, kwargs))), {})
    program.graph_module.recompile()


def _accessors(signature: ModuleCallSignature) -> list[list[str]]:
    """How guards write each flat input: `L['x']`, `L['pair'][0]`; that of `*xs` as `L['xs'][0]`."""
    args, kwargs = signature.in_spec.children()
    names = [*(signature.forward_arg_names or [])][: args.num_children] or [f"arg{i}" for i in range(args.num_children)]
    found: list[list[str]] = []
    for name, spec in [*zip(names, args.children(), strict=True), *zip(kwargs.context, kwargs.children(), strict=True)]:
        leaves, _ = pytree.tree_flatten_with_path(pytree.tree_unflatten(range(spec.num_leaves), spec))
        starred = re.fullmatch(r"(.+)_(\d+)", name)
        for path, _ in leaves:
            inner = pytree.keystr(path)
            forms = [f"L['{name}']{inner}", f"L['flat_args'][{len(found)}]"]
            found.append([*forms, f"L['{starred[1]}'][{starred[2]}]{inner}"] if starred else forms)
    return found


def _rewrite_guards(program: ExportedProgram, accessors: list[list[str]]) -> None:
    """Guards hold the inputs' old names as text. One that names anything else goes: what placeholders say of sizes and
    ranges is checked anyway.
    """
    new = {
        form: f"L['{node.name}']"
        for node, forms in zip(user_placeholders(program), accessors, strict=True)
        for form in forms
    }
    pattern = re.compile("|".join(re.escape(form) for form in sorted(new, key=len, reverse=True)))
    program._guards_code = [
        pattern.sub(lambda match: new[match[0]], guard)
        for guard in program._guards_code
        if "L[" not in pattern.sub("", guard)
    ]


def _name_inputs(program: ExportedProgram, names: list[str]) -> None:
    nodes = user_placeholders(program)
    wanted = {node: name if name.isidentifier() else node.name for node, name in zip(nodes, names, strict=True)}
    if all(node.name == name for node, name in wanted.items()):
        return
    for index, node in enumerate(nodes):  # out of each other's way first
        _rename(program, node, f"fuseworks_input_{index}")
    for node in program.graph.nodes:
        if node.name in wanted.values():  # an operation that happens to be called so (`linear`, `add`)
            _rename(program, node, f"{node.name}_op")
    for node, name in wanted.items():
        _rename(program, node, name)


def _rename(program: ExportedProgram, node: fx.Node, name: str) -> None:
    old = node.name
    node.name = name  # not Node._rename: the graph never frees a name, so `add` would come back as `add_1`
    program.graph._graph_namespace._used_names.add(name)
    if node.op == "placeholder":
        node.target = node.name
    signature = program.graph_signature
    for spec in [*signature.input_specs, *signature.output_specs]:
        if isinstance(spec.arg, TensorArgument) and spec.arg.name == old:
            spec.arg.name = node.name


def save_program(program: ExportedProgram, path: Path) -> None:
    try:
        torch.export.save(program, str(path))
    except Exception as error:  # the serializer raises many kinds; each is a gap of ours or of torch's
        detail = "".join(traceback.format_exception(error))[-8000:]
        raise FuseworksError("capturing:ours:save", text=str(error)[:500], detail=detail) from error


def operations(program: ExportedProgram) -> dict[str, int]:
    """Histogram of operations, most frequent first, without their overloads: `aten.linear`."""
    counts = Counter(operation_name(node) for node in call_nodes(program.graph_module))
    counts.pop("getitem", None)
    return dict(counts.most_common())


def call_nodes(module: fx.GraphModule) -> Iterator[fx.Node]:
    """Every call, in nested graphs (control flow) too."""
    for part in module.modules():
        if isinstance(part, fx.GraphModule):
            yield from (node for node in part.graph.nodes if node.op == "call_function")


def operation_name(node: fx.Node) -> str:
    target: Any = node.target
    if isinstance(target, torch._ops.OpOverload):
        return target._schema.name.replace("::", ".")
    return str(getattr(target, "__name__", target))


def random_nodes(program: ExportedProgram) -> list[fx.Node]:
    """Operations that draw random numbers as they are called here: dropout out of training draws none."""
    return [node for node in call_nodes(program.graph_module) if _draws(node)]


def _draws(node: fx.Node) -> bool:
    target: Any = node.target
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    given = {a.name: node.kwargs.get(a.name, a.default_value) for a in target._schema.arguments}
    given.update({a.name: value for a, value in zip(target._schema.arguments, node.args, strict=False)})
    training = given.get("train", given.get("training", True))
    chance = given.get("dropout_p", given.get("p", 1.0) if "train" in given else 1.0)
    return bool(training) and bool(chance != 0.0)


def writes(program: ExportedProgram) -> list[Write]:
    """Writes into buffers, parameters and inputs. The undecomposed graph keeps them as in-place operations."""
    signature = program.graph_signature
    kinds = {s.arg.name: (s.kind, s.target or s.arg.name) for s in signature.input_specs if hasattr(s.arg, "name")}
    found = [Write(InputKind.BUFFER, target, None) for target in signature.buffers_to_mutate.values()]
    found += [Write(InputKind.USER_INPUT, target, None) for target in signature.user_inputs_to_mutate.values()]
    for node in program.graph.nodes:
        for argument in _written(node):
            root = _root(argument)
            if root.op == "placeholder" and root.name in kinds:
                kind, target = kinds[root.name]
                found.append(Write(kind, target, node))
    return found


def _written(node: fx.Node) -> list[fx.Node]:
    target: Any = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return []
    return [
        value
        for argument, value in zip(target._schema.arguments, node.args, strict=False)
        if argument.alias_info is not None and argument.alias_info.is_write and isinstance(value, fx.Node)
    ]


def _root(node: fx.Node) -> fx.Node:
    """Follows views and in-place results back to where their memory comes from."""
    while node.op == "call_function":
        target: Any = node.target
        aliased = isinstance(target, torch._ops.OpOverload) and any(
            argument.alias_info is not None for argument in target._schema.arguments
        )
        if not (aliased and node.args and isinstance(node.args[0], fx.Node)):
            break
        node = node.args[0]
    return node
