"""One training step: forward, loss, backward, update. Needs torch only: a package carries this very file.

A step is a graph (model and loss, as torch.export gives them) and its design: the optimizer, how it is applied, and the
embedding tables of which only the looked-up rows are updated. Not for sparse or row-wise updates that change the
optimizer: a table of rows is for plain SGD and Adagrad, where rows without a gradient do not move.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx

DESIGN = "design.json"
OPTIMIZERS: dict[str, Any] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adagrad": torch.optim.Adagrad,
}
UPDATES: dict[str, dict[str, bool]] = {"loop": {}, "foreach": {"foreach": True}, "fused": {"fused": True}}
ROW_OPTIMIZERS = frozenset({"sgd", "adagrad"})
ADAGRAD_EPS = 1e-10
EMBEDDING = torch.ops.aten.embedding.default

Design = dict[str, Any]


def design_of(path: Path) -> Design:
    """Of a step's file, without reading its weights."""
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.endswith(f"extra/{DESIGN}"))
        design: Design = json.loads(archive.read(name))
    return design


def load_graph(path: Path) -> fx.GraphModule:
    """The step's graph: flat tensors in, a tuple with the loss out; trained parameters ask for gradients."""
    with open(path, "rb") as file:
        program = torch.export.load(file)
    return graph_of(program, design_of(path))


def graph_of(program: torch.export.ExportedProgram, design: Design) -> fx.GraphModule:
    module = program.module(check_guards=False)
    assert isinstance(module, fx.GraphModule)
    retie(module, design)
    trained = set(design["parameters"])
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name in trained)
    # the exported calling convention, and its check, know nothing of inputs that are added for rows
    module._forward_pre_hooks.clear()
    module._forward_pre_hooks_with_kwargs.clear()
    module.graph.set_codegen(fx.graph.CodeGen())
    module.recompile()
    return module


def retie(module: torch.nn.Module, design: Design) -> None:
    """A saved graph holds a shared parameter once for each of its names."""
    for first, *others in design["ties"]:
        for other in others:
            owner, _, attribute = other.rpartition(".")
            setattr(module.get_submodule(owner), attribute, module.get_parameter(first))


# ---- embedding tables by rows ----------------------------------------------------------------------------------------


def lookups(module: fx.GraphModule) -> dict[str, list[fx.Node]]:
    """By the name of the table: the nodes that look rows up in it."""
    found: dict[str, list[fx.Node]] = {}
    for node in module.graph.find_nodes(op="call_function", target=EMBEDDING):
        weight = node.args[0]
        if isinstance(weight, fx.Node) and weight.op == "get_attr":
            found.setdefault(str(weight.target), []).append(node)
    return found


def ancestors(node: fx.Node) -> set[fx.Node]:
    """The node and all that it is computed from."""
    found: set[fx.Node] = set()
    ahead = [node]
    while ahead:
        one = ahead.pop()
        if one not in found:
            found.add(one)
            ahead += one.all_input_nodes
    return found


class Rows:
    """The lookups of some tables, taken out of a graph: `ids_of` computes the ids, and the graph takes the looked-up
    rows as inputs behind its own, so that backward gives a gradient for each row and none of a table's size."""

    def __init__(self, module: fx.GraphModule, tables: Sequence[str]) -> None:
        self.names: list[str] = []
        self.paddings: list[int] = []
        nodes = [node for name, found in lookups(module).items() if name in tables for node in found]
        self.ids_of = _ids_graph(module, nodes)
        behind = [node for node in module.graph.nodes if node.op == "placeholder"][-1]
        for node in nodes:
            self.names.append(str(node.args[0].target))  # type: ignore[union-attr]
            self.paddings.append(_padding(node))
            with module.graph.inserting_after(behind):
                behind = module.graph.placeholder(f"rows_{len(self.names) - 1}")
            behind.meta = dict(node.meta)
            node.replace_all_uses_with(behind)
            module.graph.erase_node(node)
        module.graph.eliminate_dead_code()
        module.recompile()


def _padding(node: fx.Node) -> int:
    given = node.args[2] if len(node.args) > 2 else node.kwargs.get("padding_idx", -1)
    assert isinstance(given, int)
    return given


def _ids_graph(module: fx.GraphModule, nodes: Sequence[fx.Node]) -> fx.GraphModule:
    needed = set().union(*(ancestors(node.args[1]) for node in nodes))  # type: ignore[arg-type]
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in module.graph.nodes:
        if node.op == "placeholder" or node in needed:
            copies[node] = graph.node_copy(node, lambda old: copies[old])
    graph.output(tuple(copies[node.args[1]] for node in nodes))  # type: ignore[index]
    return fx.GraphModule(module, graph)


class RowUpdate:
    """What SGD or Adagrad does to the rows of one table that have a gradient; all others it would leave as they are."""

    def __init__(self, weight: torch.Tensor, optimizer: str, lr: float) -> None:
        self.weight, self.lr = weight, lr
        self.sums = torch.zeros_like(weight) if optimizer == "adagrad" else None

    @torch.no_grad()
    def __call__(self, ids: torch.Tensor, gradient: torch.Tensor) -> None:
        """`ids` [n], `gradient` [n, width]: ids may repeat."""
        if self.sums is None:
            add_rows(self.weight, ids, gradient * -self.lr)
            return
        touched, place = ids.unique(return_inverse=True)
        # squared once for each row, not once for each of its occurrences
        total = add_rows(gradient.new_zeros(len(touched), gradient.shape[1]), place, gradient)
        add_rows(self.sums, touched, total * total)
        scale = self.sums.index_select(0, touched).sqrt_().add_(ADAGRAD_EPS)
        add_rows(self.weight, touched, total.div_(scale).mul_(-self.lr))


def add_rows(table: torch.Tensor, ids: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """In place: `table[ids] += rows`, once for each time that an id occurs."""
    return table.scatter_add_(0, ids.unsqueeze(1).expand_as(rows), rows)


# ---- the step --------------------------------------------------------------------------------------------------------


class Step:
    """Call it with the model's inputs and the targets; it updates the parameters and returns the loss.

    `compiled`: forward and backward go through torch.compile; `compiled_optimizer`: the optimizer, too.
    """

    def __init__(
        self,
        forward: torch.nn.Module,
        design: Design,
        *,
        compiled: bool = False,
        compiled_optimizer: bool = False,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.design = design
        name, lr = str(design["optimizer"]["name"]), float(design["optimizer"]["lr"])
        by_name = dict(forward.named_parameters(remove_duplicate=False))
        self.parameters = {one: by_name[one] for one in design["parameters"]}
        self.buffers = {one: buffer for one, buffer in forward.named_buffers() if buffer.numel()}
        tables = list(design.get("rows") or [])
        self.rows = None
        if tables:
            assert isinstance(forward, fx.GraphModule)
            self.rows = Rows(forward, tables)
        self.updates = {one: RowUpdate(self.parameters[one], name, lr) for one in tables}
        dense = [parameter for one, parameter in self.parameters.items() if one not in self.updates]
        self.optimizer = OPTIMIZERS[name](dense, lr=lr, **UPDATES[design["update"]]) if dense else None
        self._forward: Callable[..., Any] = forward
        self._update: Callable[[], Any] = self.optimizer.step if self.optimizer is not None else lambda: None
        if compiled:
            self._forward = torch.compile(forward, fullgraph=True, dynamic=False, options=options)
        if compiled_optimizer and self.optimizer is not None:
            self._update = torch.compile(self._update, fullgraph=False, dynamic=False, options=options)
        self._last: list[tuple[str, torch.Tensor, torch.Tensor]] = []

    def __call__(self, *tensors: torch.Tensor) -> torch.Tensor:
        if self.optimizer is not None:
            self.optimizer.zero_grad()
        ids, rows = self._looked_up(tensors)
        answer = self._forward(*tensors, *rows)
        loss: torch.Tensor = answer if isinstance(answer, torch.Tensor) else answer[0]
        loss.backward()
        self._update()
        if self.rows is not None:
            self._last = list(self._by_table(ids, rows))
            for name, flat, gradient in self._last:
                self.updates[name](flat, gradient)
        return loss.detach()

    def _looked_up(self, tensors: Sequence[torch.Tensor]) -> tuple[Sequence[torch.Tensor], list[torch.Tensor]]:
        if self.rows is None:
            return (), []
        with torch.no_grad():
            ids = self.rows.ids_of(*tensors)
            found = [
                torch.nn.functional.embedding(one, self.parameters[name])
                for one, name in zip(ids, self.rows.names, strict=True)
            ]
        return ids, [rows.requires_grad_() for rows in found]

    def _by_table(
        self, ids: Sequence[torch.Tensor], rows: Sequence[torch.Tensor]
    ) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
        """Ids and gradients of each table, those of several lookups joined."""
        assert self.rows is not None
        joined: dict[str, list[tuple[torch.Tensor, torch.Tensor]]] = {}
        for name, padding, one, found in zip(self.rows.names, self.rows.paddings, ids, rows, strict=True):
            if found.grad is None:
                continue  # looked up, and the loss does not depend on it
            flat, gradient = one.reshape(-1), found.grad.reshape(-1, found.shape[-1])
            if padding >= 0:  # the padding row has no gradient
                gradient = gradient.masked_fill((flat == padding).unsqueeze(1), 0.0)
            joined.setdefault(name, []).append((flat, gradient))
        for name, parts in joined.items():
            if len(parts) == 1:
                yield name, *parts[0]
            else:
                yield name, torch.cat([flat for flat, _ in parts]), torch.cat([gradient for _, gradient in parts])

    def gradients(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Of the last step, in a table's full size: what it had none for is zero."""
        last = {name: (flat, gradient) for name, flat, gradient in self._last}
        for name, parameter in self.parameters.items():
            if name in last:
                flat, gradient = last[name]
                yield name, add_rows(torch.zeros_like(parameter.detach()), flat, gradient)
            else:
                yield name, torch.zeros_like(parameter.detach()) if parameter.grad is None else parameter.grad

    def optimizer_state(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Every moment or sum of the optimizer, as `name: key`; its counters are left out."""
        for name, parameter in self.parameters.items():
            if name in self.updates:
                sums = self.updates[name].sums
                if sums is not None:
                    yield f"{name}: sum", sums
                continue
            assert self.optimizer is not None
            for key, value in self.optimizer.state.get(parameter, {}).items():
                if isinstance(value, torch.Tensor) and key != "step":
                    yield f"{name}: {key}", value

    @torch.no_grad()
    def forget(self) -> None:
        """The optimizer as it was before its first step; in place, so that nothing is compiled or allocated anew."""
        for update in self.updates.values():
            if update.sums is not None:
                update.sums.zero_()
        if self.optimizer is not None:
            self.optimizer.zero_grad()
            for state in self.optimizer.state.values():
                for value in state.values():
                    if isinstance(value, torch.Tensor):
                        value.zero_()
        self._last = []
