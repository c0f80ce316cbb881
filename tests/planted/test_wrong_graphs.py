"""Wrong rewrites planted into a graph: the verifier refuses each, and the bisection names the line that is wrong."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import fx

from optimizer.compiling.torch_contender import TorchContender
from optimizer.optimizing.graph import Graph, aten
from optimizer.verifying.bisect import first_difference
from optimizer.verifying.meaning import same_meaning
from optimizer.verifying.reference import TorchReference
from tests.optimizer.verifying.local import LocalChild
from tests.planted.originals import BLOCKS, EMBEDDED, Blocks, Embedded
from tests.planted.support import export, said, verifier_of

Edit = Callable[[Graph], None]


def line(text: str, model: type[torch.nn.Module] = Blocks) -> str:
    """Where `text` stands in the model's own code."""
    lines, first = inspect.getsourcelines(model.forward)
    [at] = [number for number, found in enumerate(lines, first) if found.strip() == text]
    return f"originals.py:{at}"


def named(graph: Graph, name: str) -> fx.Node:
    return next(node for node in graph.nodes if node.name == name)


def put(graph: Graph, name: str, build: Callable[[fx.Node], fx.Node]) -> None:
    """What `build` inserts in front of a node takes its place."""
    old = named(graph, name)
    graph.replace(old, build(old))


def otherwise(graph: Graph) -> None:
    """A right rewrite with nodes of its own, after which no node has the name that it had."""
    put(
        graph,
        "add",
        lambda old: graph.call(
            aten.add.Tensor,
            graph.call(aten.mul.Tensor, old.args[0], 2.0, before=old, like=old),
            graph.call(aten.sub.Tensor, old.args[1], old.args[0], before=old, like=old),
            before=old,
            like=old,
        ),
    )
    fused = named(graph, "linear")
    weight = graph.call(aten.t.default, fused.args[1], before=fused, like=fused)
    put(
        graph,
        "linear",
        lambda old: graph.call(aten.addmm.default, old.args[2], old.args[0], weight, before=old, like=old),
    )


def epsilon(graph: Graph) -> None:
    node = named(graph, "layer_norm_1")
    node.args = (*node.args[:4], 1e-3)


def tanh_gelu(graph: Graph) -> None:
    named(graph, "gelu_2").kwargs = {"approximate": "tanh"}


def lost_bias(graph: Graph) -> None:
    def build(old: fx.Node) -> fx.Node:
        weight = graph.call(aten.t.default, old.args[1], before=old, like=old)
        return graph.call(aten.mm.default, old.args[0], weight, before=old, like=old)

    put(graph, "linear_3", build)


def other_layers_weight(graph: Graph) -> None:
    second, third = named(graph, "linear_2"), named(graph, "linear_4")
    third.args = (third.args[0], second.args[1], third.args[2])


def lost_residual(graph: Graph) -> None:
    put(graph, "add_3", lambda old: old.args[1])  # type: ignore[arg-type, return-value]


def hard_sigmoid(graph: Graph) -> None:
    put(graph, "sigmoid", lambda old: graph.call(aten.hardsigmoid.default, old.args[0], before=old, like=old))


def mean_of_a_bag(graph: Graph) -> None:
    put(graph, "sum_1", lambda old: graph.call(aten.mean.dim, *old.args, before=old, like=old))


WRONG: dict[str, tuple[Edit, str, str]] = {
    "another epsilon": (epsilon, "aten.layer_norm.default (layer_norm_1", "normed = norm(h)"),
    "a tanh gelu": (tanh_gelu, "aten.gelu.default (gelu_2", "active = F.gelu(wide)"),
    "a bias lost": (lost_bias, "aten.linear.default (linear_3", "narrow = down(active)"),
    "another layer's weight": (other_layers_weight, "aten.linear.default (linear_4", "wide = up(normed)"),
    "a residual lost": (lost_residual, "aten.add.Tensor (add_3", "h = h + narrow"),
    "the last operation": (hard_sigmoid, "aten.sigmoid.default (sigmoid", "return torch.sigmoid(logits)"),
    "the first operation": (mean_of_a_bag, "aten.sum.dim_IntList (sum_1", "h = x + self.table(ids).sum(1)"),
}


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(BLOCKS, tmp_path_factory.mktemp("blocks") / "captured.pt2")


def rewritten(captured: Path, out: Path, *edits: Edit) -> Path:
    graph = Graph.from_exported(torch.export.load(captured))
    with torch.no_grad():
        for edit in edits:
            edit(graph)
            graph.sweep()
            graph.lint()
        torch.export.save(graph.to_exported(), out)
    return out


def arrays(name: str = "BLOCKS") -> list[np.ndarray]:
    return verifier_of(name).truths.pooled[0].arrays


def verified(path: Path, name: str = "BLOCKS") -> Any:
    module, verifier = torch.no_grad()(torch.export.load(path).module()), verifier_of(name)
    return verifier.verify(LocalChild(TorchContender(module, verifier.workload)))  # type: ignore[arg-type]


def meaning(path: Path, name: str = "BLOCKS") -> Any:
    return same_meaning(LocalChild(TorchReference(path)), verifier_of(name).truths, 60.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("beside", [(), (otherwise,)], ids=["alone", "beside a right rewrite"])
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_graph_is_refused_and_its_line_is_named(
    captured: Path, tmp_path: Path, name: str, beside: tuple[Edit, ...]
) -> None:
    edit, node, text = WRONG[name]
    path = rewritten(captured, tmp_path / "wrong.pt2", edit, *beside)
    found = verified(path)
    assert not found.passed and "output 0: error" in str(found.reason), said(found)
    assert not meaning(path).passed
    assert first_difference(captured, path, arrays()) == f"{node}, {line(text)})"


def test_a_right_graph_passes_and_nothing_is_named(captured: Path, tmp_path: Path) -> None:
    path = rewritten(captured, tmp_path / "right.pt2", otherwise)
    names = [node.name for node in torch.export.load(path).graph.nodes]
    assert "mul" in names and "addmm" in names, "it is another graph"
    found = verified(path)
    assert found.passed, said(found)
    assert meaning(path).passed, meaning(path).reason
    assert first_difference(captured, path, arrays()) is None


def larger_epsilon(graph: Graph) -> None:
    node = named(graph, "layer_norm")
    node.args = (*node.args[:4], 5e-6)


def folded(graph: Graph) -> None:
    """The norm's scale and a product of two weights, each rounded to float32 once more."""
    hidden, head, norm = named(graph, "linear"), named(graph, "linear_1"), named(graph, "layer_norm")
    weights = [graph.constant_value(node) for node in (head.args[1], hidden.args[1], norm.args[2])]
    merged = (weights[0].double() @ weights[1].double() * weights[2].double()).float()  # type: ignore[union-attr]
    head.args = (head.args[0], graph.constant(merged, "merged"), head.args[2])
    graph.replace(hidden, norm)


def test_what_float32_cannot_tell_is_told_in_float64(tmp_path: Path) -> None:
    """The embedding's rows have a spread of one, so that the epsilons differ by less than an answer is rounded."""
    captured = export(EMBEDDED, tmp_path / "captured.pt2")
    path = rewritten(captured, tmp_path / "wrong.pt2", larger_epsilon)
    assert verified(path, "EMBEDDED").passed
    found = meaning(path, "EMBEDDED")
    assert not found.passed
    assert "in float64, where rounding hides nothing, it departs from the original: output 0: error" in found.reason
    told = first_difference(captured, path, arrays("EMBEDDED"))
    assert told == f"aten.layer_norm.default (layer_norm, {line('normed = self.norm(rows)', Embedded)})"


def test_weights_that_are_folded_in_float32_mean_the_same(tmp_path: Path) -> None:
    captured = export(EMBEDDED, tmp_path / "captured.pt2")
    path = rewritten(captured, tmp_path / "folded.pt2", folded)
    assert verified(path, "EMBEDDED").passed
    assert meaning(path, "EMBEDDED").passed, meaning(path, "EMBEDDED").reason
