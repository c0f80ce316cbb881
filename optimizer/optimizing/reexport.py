"""Exports a rewritten graph again with the dynamic dimensions and ranges of the program that it came from."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch import fx
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

import optimizer.optimizing.errors  # noqa: F401
from optimizer.errors import FuseworksError


def export_again(original: ExportedProgram, module: fx.GraphModule) -> ExportedProgram:
    """Raises FuseworksError `optimizing:ours:export-again` when a pass broke a dynamic dimension or the signature."""
    args, kwargs = example_inputs(original)
    arg_dims, kwarg_dims = pytree.tree_unflatten(_dims_of_inputs(original), original.call_spec.in_spec)
    dynamic_shapes = dict(zip(_argument_names(original), (*arg_dims, *kwarg_dims.values()), strict=True))
    try:
        with torch.no_grad():
            exported = torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes)
    except Exception as error:  # export raises many kinds; each means the same here
        raise FuseworksError("optimizing:ours:export-again", text=str(error)[:1000]) from error
    _check_signature(original, exported)
    return exported


def user_inputs(exported: ExportedProgram) -> list[fx.Node]:
    names = set(exported.graph_signature.user_inputs)
    return [n for n in exported.graph.nodes if n.op == "placeholder" and n.name in names]


def example_inputs(exported: ExportedProgram) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Zeros of the shapes that the program was traced with: the saved examples may be missing or be the user's data."""
    leaves = [_example(value) for value in _input_values(exported)]
    args, kwargs = pytree.tree_unflatten(leaves, exported.call_spec.in_spec)
    return args, kwargs


def _input_values(exported: ExportedProgram) -> list[Any]:
    nodes = {n.name: n for n in exported.graph.nodes if n.op == "placeholder"}
    values = []
    for spec in exported.graph_signature.input_specs:
        if spec.kind != torch.export.graph_signature.InputKind.USER_INPUT:
            continue
        constant = isinstance(spec.arg, torch.export.graph_signature.ConstantArgument)
        values.append(spec.arg.value if constant else nodes[spec.arg.name].meta["val"])
    return values


def _hint(size: int | torch.SymInt) -> int:
    return size if isinstance(size, int) else int(size.node.hint)


def _example(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return int(value.node.hint) if isinstance(value, torch.SymInt) else value
    shape, stride = [_hint(s) for s in value.shape], [_hint(s) for s in value.stride()]
    return torch.empty_strided(shape, stride, dtype=value.dtype, device=value.device).zero_()


def _dims_of_inputs(exported: ExportedProgram) -> list[Any]:
    roots: dict[sympy.Symbol, Any] = {}
    shapes: list[Any] = []
    for value in _input_values(exported):
        if isinstance(value, torch.Tensor):
            shapes.append({i: _dim(s, exported, roots) for i, s in enumerate(value.shape) if not isinstance(s, int)})
        else:
            shapes.append(_dim(value, exported, roots) if isinstance(value, torch.SymInt) else None)
    return shapes


def _dim(size: torch.SymInt, exported: ExportedProgram, roots: dict[sympy.Symbol, Any]) -> Any:
    expression = size.node.expr
    if not isinstance(expression, sympy.Symbol):  # derived, such as 2*s0: linear in one root, all that export knows
        (root,) = expression.free_symbols
        factor, rest = sympy.Poly(expression, root).all_coeffs()
        base = _root(root, exported, roots)
        base = base if factor == 1 else int(factor) * base
        return base if rest == 0 else base + int(rest)
    return _root(expression, exported, roots)


def _root(symbol: sympy.Symbol, exported: ExportedProgram, roots: dict[sympy.Symbol, Any]) -> Any:
    if symbol not in roots:
        span = exported.range_constraints[symbol]
        finite = {k: int(v) for k, v in (("min", span.lower), ("max", span.upper)) if v.is_finite and v < 2**62}
        roots[symbol] = Dim(str(symbol), **finite)
    return roots[symbol]


def _argument_names(exported: ExportedProgram) -> list[str]:
    names = exported.module_call_graph[0].signature.forward_arg_names
    args_spec, kwargs_spec = exported.call_spec.in_spec.children()
    count = args_spec.num_children + kwargs_spec.num_children
    if names is None or len(names) != count:
        raise FuseworksError("optimizing:ours:export-again", text=f"the names of the {count} arguments are not known")
    return list(names)


def _check_signature(original: ExportedProgram, exported: ExportedProgram) -> None:
    before, after = list(original.graph_signature.user_inputs), list(exported.graph_signature.user_inputs)
    if before != after:
        raise FuseworksError("optimizing:ours:export-again", text=f"inputs {before} became {after}")
    if original.call_spec.out_spec != exported.call_spec.out_spec:
        raise FuseworksError("optimizing:ours:export-again", text="the structure of the outputs changed")
    for old, new in zip(_input_values(original), _input_values(exported), strict=True):
        if not isinstance(old, torch.Tensor):
            continue
        for index, (a, b) in enumerate(zip(old.shape, new.shape, strict=True)):
            if isinstance(a, int) != isinstance(b, int):
                text = f"dimension {index} of an input went from {a} to {b}"
                raise FuseworksError("optimizing:ours:export-again", text=text)
