"""What is in a captured program: parameters, operations, outputs, dynamic dimensions, notes."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from optimizer.capturing import torch_graph
from optimizer.capturing.torch_inputs import dtype_name
from optimizer.capturing.torch_upload import Captured
from optimizer.spec import Workload


def inspection(captured: Captured) -> dict[str, Any]:
    program = captured.program
    state = [t for t in program.state_dict.values() if isinstance(t, torch.Tensor)]
    constants = [t for t in program.constants.values() if isinstance(t, torch.Tensor)]
    symbols = symbol_names(program, captured.workload)
    outputs = []
    notes = list(captured.notes)
    by_name = {node.name: node for node in program.graph.nodes}
    for name, node_name in zip(captured.outputs, program.graph_signature.user_outputs, strict=True):
        value = by_name[str(node_name)].meta["val"]
        shape = [size if isinstance(size, int) else named(str(size.node.expr), symbols) for size in value.shape]
        outputs.append({"name": name, "dtype": dtype_name(value.dtype), "shape": shape})
        if any(isinstance(size, torch.SymInt) and free_unbacked_symbols(size) for size in value.shape):
            notes.append(f"The size of output {name!r} depends on values, not on sizes alone")
    return {
        "parameters": sum(_distinct(list(program.parameters())).values()),
        "parameter_bytes": sum(t.numel() * t.element_size() for t in _storages([*state, *constants])),
        "operations": torch_graph.operations(program),
        "outputs": outputs,
        "dynamic": [name for name, dim in captured.workload.dims.items() if dim.min < dim.max],
        "notes": notes,
        "id_rows": captured.id_rows,
    }


def symbol_names(program: ExportedProgram, workload: Workload) -> dict[str, str]:
    names = {}
    for node, spec in zip(torch_graph.user_placeholders(program), workload.inputs, strict=True):
        for size, dim in zip(node.meta["val"].shape, spec.shape, strict=True):
            if not isinstance(size, int) and isinstance(dim, str):
                names[str(size.node.expr)] = dim
    return names


def named(expression: str, symbols: dict[str, str]) -> str:
    return re.sub(r"\b\w+\b", lambda match: symbols.get(match[0], match[0]), expression)


def _storages(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Tied tensors once."""
    return list({(t.data_ptr(), tuple(t.shape)): t for t in tensors}.values())


def _distinct(parameters: list[Any]) -> dict[tuple[int, tuple[int, ...]], int]:
    return {(p.data_ptr(), tuple(p.shape)): p.numel() for p in parameters}
