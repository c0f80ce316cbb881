"""Checks of a rewritten graph without exporting it again: its results, and the truth of every node's value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from optimizer.optimizing.graph import Graph


class Calls(nn.Module):
    """A module that calls a function; its parameters and buffers are handed to it as `self`."""

    def __init__(self, function: Callable[..., Any], **tensors: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)

    def forward(self, *args: Any) -> Any:
        return self.function(self, *args)


def assert_same(model: nn.Module, graph: Graph, *input_sets: tuple[Any, ...], tolerance: float = 1e-5) -> None:
    """The rewritten graph gives what the user's module gives; and each node's value says what the node really gives."""
    graph.lint()
    with torch.no_grad():
        for inputs in input_sets:
            expected = pytree.tree_leaves(model(*inputs))
            seen = _Recorder(graph.module)
            got = pytree.tree_leaves(seen.run(*inputs))
            assert len(expected) == len(got)
            for a, b in zip(expected, got, strict=True):
                torch.testing.assert_close(b, a, rtol=tolerance, atol=tolerance, equal_nan=True)
            seen.check()


class _Recorder(torch.fx.Interpreter):
    """Runs a graph on real tensors and compares them with the fake ones: rank, dtype, every static size, strides."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)

    def run_node(self, n: torch.fx.Node) -> Any:
        self.at = n
        return super().run_node(n)

    def check(self) -> None:
        for node, real in self.env.items():
            if node.op != "call_function":
                continue
            for fake, value in zip(pytree.tree_leaves(node.meta["val"]), pytree.tree_leaves(real), strict=True):
                if not isinstance(fake, torch.Tensor):
                    continue
                assert fake.dtype == value.dtype, node.name
                assert len(fake.shape) == len(value.shape), node.name
                for said, is_ in zip(fake.shape, value.shape, strict=True):
                    assert not isinstance(said, int) or said == is_, f"{node.name}: {fake.shape} but {value.shape}"
                if value.numel() and all(isinstance(s, int) for s in (*fake.shape, *fake.stride())):
                    sizes = zip(fake.shape, fake.stride(), value.stride(), strict=True)
                    assert all(size == 1 or a == b for size, a, b in sizes), f"{node.name}: strides"
