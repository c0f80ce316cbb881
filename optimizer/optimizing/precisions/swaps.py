"""Runs a graph with some of its linear layers in a lower precision, and says how far its outputs then are off.

Only what depends on a swapped layer is computed again. The arithmetic is that of `compiling.int8` and of
`compiling.bfloat16`, layer by layer; an engine may round elsewhere, so verification has the last word.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import fx
from torch.utils import _pytree as pytree

from optimizer.compiling.int8 import never_negative, rounded_rows, rounded_weight
from optimizer.compiling.torch_contender import to_numpy
from optimizer.optimizing.graph import Graph
from optimizer.optimizing.matching import ConstantLinear
from optimizer.result import OutputNumerics
from optimizer.verifying.judging import judge_pooled
from optimizer.verifying.numerics import Rule
from optimizer.verifying.questions import Question, Truths

Layer = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None], torch.Tensor]
KEPT_BYTES = 2 << 30  # of intermediate values; a model that makes more is run from the beginning each time


def in_int8(
    source: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *, unsigned: bool = False
) -> torch.Tensor:
    """Products of whole numbers are summed in float32: exactly, up to some hundred inputs."""
    whole, weight_scale = rounded_weight(weight)
    rows, scale = rounded_rows(source, unsigned)
    result = torch.nn.functional.linear(rows, whole.float()) * scale * weight_scale
    return result if bias is None else result + bias


def in_bfloat16(source: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    low = None if bias is None else bias.bfloat16()
    return torch.nn.functional.linear(source.bfloat16(), weight.bfloat16(), low).float()


def layer_in(precision: str, graph: Graph, layer: ConstantLinear) -> Layer:
    if precision == "bfloat16":
        return in_bfloat16
    return functools.partial(in_int8, unsigned=never_negative(graph, layer.input))


class _Swapping(fx.Interpreter):
    """`swaps`: by node, its layer and how it is computed."""

    def __init__(self, module: fx.GraphModule, swaps: Mapping[fx.Node, tuple[ConstantLinear, Layer]], keep: bool):
        super().__init__(module, garbage_collect_values=not keep)
        self.swaps = swaps

    def run_node(self, n: fx.Node) -> Any:
        if n not in self.swaps:
            return super().run_node(n)
        layer, compute = self.swaps[n]
        return compute(self.env[layer.input], layer.weight, layer.bias)


class Swaps:
    """A graph's answers to a few questions, with layers in other precisions. `questions` have their truths."""

    def __init__(self, graph: Graph, layers: Sequence[ConstantLinear], questions: Sequence[Question], names: list[str]):
        self.graph, self.layers = graph, layers
        self.inputs: list[list[torch.Tensor]] = [
            [_tensor(node, array) for node, array in zip(graph.inputs, question.arrays, strict=True)]
            for question in questions
        ]
        self.values: list[dict[fx.Node, Any]] = [{} for _ in questions]
        for question, given, values in zip(questions, self.inputs, self.values, strict=True):
            question.baseline = self._run(given, {}, values)
            question.mark_ties([])
        self.truths = Truths(names, [], list(questions), [])
        self.truths.measure_baseline()

    def rows(self, layer: ConstantLinear) -> int:
        """Of a call: how many rows its input has."""
        source = self.values[0].get(layer.input)
        shape = source.shape if source is not None else layer.input.meta["val"].shape
        return int(np.prod([int(size) for size in shape[:-1]]))

    def judged(self, precisions: Mapping[int, str], rule: Rule) -> list[OutputNumerics]:
        """`precisions`: by the layer's place. One row for each output, as verification has them."""
        swaps = {
            self.layers[place].node: (self.layers[place], layer_in(name, self.graph, self.layers[place]))
            for place, name in precisions.items()
        }
        stale = _depending(swaps)
        answers = []
        for given, values in zip(self.inputs, self.values, strict=True):
            known = {node: value for node, value in values.items() if node not in stale}
            answers.append(self._run(given, swaps, None, known))
        return judge_pooled(answers, self.truths, rule)

    def _run(
        self,
        given: Sequence[torch.Tensor],
        swaps: Mapping[fx.Node, tuple[ConstantLinear, Layer]],
        keep: dict[fx.Node, Any] | None = None,
        known: dict[fx.Node, Any] | None = None,
    ) -> list[np.ndarray]:
        # values that an operation writes into cannot be kept
        keeping = keep is not None and not self.graph.tainted
        interpreter = _Swapping(self.graph.module, swaps, keep=keeping)
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
