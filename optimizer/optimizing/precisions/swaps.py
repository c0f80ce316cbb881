"""Runs a graph with some of its layers in a lower precision, and says how far its outputs then are off.

Only what depends on a swapped layer is computed again. The arithmetic is that of `compiling.int8`, layer by layer, and
of `compiling.bfloat16_marks`, which says what goes on in bfloat16 between them; an engine may round elsewhere, so
verification has the last word.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import fx
from torch.utils import _pytree as pytree

from optimizer.compiling.bfloat16_marks import Marks, mark
from optimizer.compiling.int8 import never_negative, rounded_rows, rounded_weight, rounded_weight_only
from optimizer.compiling.layers import Layer
from optimizer.compiling.torch_contender import to_numpy
from optimizer.optimizing.graph import Graph
from optimizer.result import OutputNumerics
from optimizer.verifying.judging import judge_pooled
from optimizer.verifying.numerics import Rule
from optimizer.verifying.questions import Question, Truths

Compute = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None], torch.Tensor]
NO_MARKS = Marks(set(), {})
KEPT_BYTES = 2 << 30  # of intermediate values; a model that makes more is run from the beginning each time


def in_int8(
    source: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *, unsigned: bool = False
) -> torch.Tensor:
    """Products of whole numbers are summed in float32: exactly, up to some hundred inputs."""
    whole, weight_scale = rounded_weight(weight)
    rows, scale = rounded_rows(source, unsigned)
    result = torch.nn.functional.linear(rows, whole.float()) * scale * weight_scale
    return result if bias is None else result + bias


def in_int8_weights(source: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Weights alone in int8: the input and the product are rounded to bfloat16."""
    whole, scale = rounded_weight_only(weight)
    result = torch.nn.functional.linear(source.bfloat16().float(), whole.float()) * scale.float()
    result = result.bfloat16().float()
    return result if bias is None else result + bias


class _Swapping(fx.Interpreter):
    """`swaps`: by node, its layer and how it is computed; `marks`: what is cast before a node reads it; `constants`: of
    these, those that were cast before."""

    def __init__(
        self,
        module: fx.GraphModule,
        swaps: Mapping[fx.Node, tuple[Layer, Compute]],
        marks: Marks,
        constants: dict[fx.Node, torch.Tensor],
        keep: bool,
    ):
        super().__init__(module, garbage_collect_values=not keep)
        self.swaps, self.marks, self.constants = swaps, marks, constants

    def run_node(self, n: fx.Node) -> Any:
        if n not in self.swaps:
            return super().run_node(n)
        layer, compute = self.swaps[n]
        assert layer.linear is not None
        return compute(self.env[layer.linear.input], layer.linear.weight, layer.linear.bias)

    def fetch_args_kwargs_from_env(self, n: fx.Node) -> Any:
        casts = self.marks.casts(n)
        given = {node: self._cast(node, casts[node]) if node in casts else self.env[node] for node in n.all_input_nodes}
        return fx.node.map_arg((n.args, n.kwargs), lambda node: given[node])

    def _cast(self, node: fx.Node, dtype: torch.dtype) -> torch.Tensor:
        if node.op != "get_attr":
            return self.env[node].to(dtype)  # type: ignore[no-any-return]
        if node not in self.constants:
            self.constants[node] = self.env[node].to(dtype)
        return self.constants[node]


class _Showing(fx.Interpreter):
    """Shows what some nodes are given, before each is called."""

    def __init__(self, module: fx.GraphModule, shown: Mapping[fx.Node, Callable[[dict[fx.Node, Any]], None]]):
        super().__init__(module)
        self.shown = shown

    def run_node(self, n: fx.Node) -> Any:
        if n in self.shown:
            self.shown[n]({node: self.env[node] for node in n.all_input_nodes})
        return super().run_node(n)


class Swaps:
    """A graph's answers to a few questions, with layers in other precisions. `questions` have their truths."""

    def __init__(self, graph: Graph, layers: Sequence[Layer], questions: Sequence[Question], names: list[str]):
        self.graph, self.layers = graph, layers
        self.inputs: list[list[torch.Tensor]] = [
            [_tensor(node, array) for node, array in zip(graph.inputs, question.arrays, strict=True)]
            for question in questions
        ]
        self.values: list[dict[fx.Node, Any]] = [{} for _ in questions]
        self.constants: dict[fx.Node, torch.Tensor] = {}
        for question, given, values in zip(questions, self.inputs, self.values, strict=True):
            question.baseline = self._run(given, keep=values)
            question.mark_ties([])
        self.truths = Truths(names, [], list(questions), [])
        self.truths.measure_baseline()

    def rows(self, layer: Layer) -> int:
        """Of a call: how many rows its input has; of what is no linear layer, its result."""
        if layer.linear is None:
            result = self.values[0].get(layer.node, layer.node.meta["val"])
            shape = next(leaf.shape for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor))
            return int(np.prod([int(size) for size in shape])) // (layer.shape.outputs or int(shape[-1]))
        source = self.values[0].get(layer.linear.input)
        shape = source.shape if source is not None else layer.linear.input.meta["val"].shape
        return int(np.prod([int(size) for size in shape[:-1]]))

    def show(self, shown: Mapping[fx.Node, Callable[[dict[fx.Node, Any]], None]]) -> None:
        """Calls each with what its node is given in the first question: by input node."""
        given = [tensor.clone() for tensor in self.inputs[0]]
        _Showing(self.graph.module, shown).run(*given, enable_io_processing=False)

    def judged(self, precisions: Mapping[int, str], rule: Rule) -> list[OutputNumerics]:
        """`precisions`: by the layer's place; `int8_weights`: of the weights alone. One row for each output, as
        verification has them."""
        swaps: dict[fx.Node, tuple[Layer, Compute]] = {}
        low: set[fx.Node] = set()
        for place, name in precisions.items():
            layer = self.layers[place]
            if name == "bfloat16":
                low.add(layer.node)
            else:
                assert layer.linear is not None
                dynamic = functools.partial(in_int8, unsigned=never_negative(self.graph, layer.linear.input))
                swaps[layer.node] = (layer, dynamic if name == "int8" else in_int8_weights)
        kept = {layer.node for layer in self.layers} - low
        marks = mark(self.graph.module.graph, kept=kept) if low else NO_MARKS
        stale = _depending([*swaps, *marks.computing])
        answers = []
        for given, values in zip(self.inputs, self.values, strict=True):
            known = {node: value for node, value in values.items() if node not in stale}
            answers.append(self._run(given, swaps, marks, known=known))
        return judge_pooled(answers, self.truths, rule)

    def _run(
        self,
        given: Sequence[torch.Tensor],
        swaps: Mapping[fx.Node, tuple[Layer, Compute]] | None = None,
        marks: Marks | None = None,
        keep: dict[fx.Node, Any] | None = None,
        known: dict[fx.Node, Any] | None = None,
    ) -> list[np.ndarray]:
        # values that an operation writes into cannot be kept
        keeping = keep is not None and not self.graph.tainted
        interpreter = _Swapping(self.graph.module, swaps or {}, marks or NO_MARKS, self.constants, keep=keeping)
        fresh = [tensor.clone() for tensor in given] if self.graph.tainted else list(given)
        outputs = interpreter.run(*fresh, initial_env=known or None, enable_io_processing=False)
        if keeping and keep is not None and _bytes(interpreter.env) <= KEPT_BYTES:
            keep.update({n: v for n, v in interpreter.env.items() if n.op not in {"placeholder", "output"}})
        return [to_numpy(leaf) for leaf in pytree.tree_leaves(outputs) if isinstance(leaf, torch.Tensor)]


def _tensor(node: fx.Node, array: np.ndarray) -> torch.Tensor:
    value = node.meta["val"]
    tensor = torch.tensor(array, dtype=value.dtype)
    return tensor.reshape(()) if value.dim() == 0 else tensor


def _bytes(env: Mapping[fx.Node, Any]) -> int:
    found = {}
    for leaf in pytree.tree_leaves(list(env.values())):
        if isinstance(leaf, torch.Tensor):
            found[leaf.untyped_storage().data_ptr()] = leaf.untyped_storage().nbytes()
    return sum(found.values())


def _depending(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """These, and all that is computed from them."""
    found: set[fx.Node] = set()
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending += node.users
    return found
