"""What Inductor tells of its kernels, led back to the nodes of the graph that was compiled."""

from __future__ import annotations

import json

import pytest
import torch

from optimizer.profiling.inductor_kernels import bare, kernels_of

MAPPINGS, TRACED = "inductor_provenance_tracking_node_mappings", "before_pre_grad_graph"


class Head(torch.nn.Module):
    """linear, relu, sigmoid in this order; a sum that two of them use."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(3, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = torch.relu(self.first(x))
        return torch.sigmoid(hidden), torch.tanh(hidden)


@pytest.fixture(scope="module")
def exported() -> torch.export.ExportedProgram:
    return torch.export.export(Head().eval(), (torch.zeros(123, 3),))


def traced(*nodes: tuple[str, str]) -> tuple[str, str]:
    lines = [f'        {name}: "f32[123, 5]" = torch.ops.aten.{op}.default(x);  x = None' for name, op in nodes]
    return TRACED, "\n".join(["class M(torch.nn.Module):", "    def forward(self, x):", *lines])


def told(kernels: dict[str, list[str]], originals: dict[str, list[str]]) -> tuple[str, str]:
    return MAPPINGS, json.dumps({"cppCodeToPost": kernels, "postToPre": originals})


SAME = traced(("linear", "linear"), ("relu", "relu"), ("sigmoid", "sigmoid"), ("tanh", "tanh"))
ORIGINALS = {"addmm": ["linear"], "relu": ["relu"], "sigmoid": ["sigmoid"], "tanh": ["tanh"]}


def names(kernels: object) -> list[tuple[str, list[str]]]:
    return [(name, [node.node for node in nodes]) for name, nodes in kernels]  # type: ignore[attr-defined]


def test_kernels_come_in_the_order_in_which_a_call_runs_them(exported: torch.export.ExportedProgram) -> None:
    document = told(
        {"cpp_fused_sigmoid_tanh_1:10": ["sigmoid", "tanh"], "extern_kernels.addmm:9": ["addmm"]}, ORIGINALS
    )
    found = kernels_of([SAME, document], exported)
    assert [name for name, _ in found] == ["addmm", "cpp_fused_sigmoid_tanh_1"]
    place = found[0][1][0]
    assert (place.node, place.op, place.module) == ("linear", "linear", "first")
    assert place.source is not None
    assert place.source.startswith("test_inductor_kernels.py:")


def test_a_node_that_nobody_names_is_in_the_only_kernel_that_uses_it(exported: torch.export.ExportedProgram) -> None:
    # folded into one operation, of which Inductor keeps the last node: linear must be in it, and relu nowhere else
    found = kernels_of([SAME, told({"aoti_torch_cpu__linear_pointwise:1": ["fn"]}, {"fn": ["relu"]})], exported)
    assert names(found) == [("_linear_pointwise", ["linear", "relu"])]


def test_a_node_counts_to_the_first_kernel_that_names_it(exported: torch.export.ExportedProgram) -> None:
    # the second names what its input was made of, too
    document = told({"a:1": ["relu"], "b:2": ["tanh", "relu", "addmm"], "c:3": ["sigmoid", "tanh"]}, ORIGINALS)
    assert names(kernels_of([SAME, document], exported)) == [
        ("a", ["relu"]),
        ("b", ["linear", "tanh"]),
        ("c", ["sigmoid"]),
    ]


def test_a_node_that_two_kernels_use_is_given_to_neither(exported: torch.export.ExportedProgram) -> None:
    document = told({"a:1": ["sigmoid"], "b:2": ["tanh"]}, ORIGINALS)
    assert names(kernels_of([SAME, document], exported)) == [("a", ["sigmoid"]), ("b", ["tanh"])]


def test_names_that_tracing_gave_anew_are_led_back_by_their_order(exported: torch.export.ExportedProgram) -> None:
    again = traced(("linear_7", "linear"), ("relu_3", "relu"), ("sigmoid_1", "sigmoid"), ("tanh_2", "tanh"))
    found = kernels_of([again, told({"k:1": ["addmm"]}, {"addmm": ["linear_7"]})], exported)
    assert names(found) == [("k", ["linear"])]


def test_of_another_graph_nothing_is_said(exported: torch.export.ExportedProgram) -> None:
    other = traced(("linear", "linear"), ("relu", "gelu"), ("sigmoid", "sigmoid"), ("tanh", "tanh"))
    assert names(kernels_of([other, told({"k:1": ["addmm"]}, ORIGINALS)], exported)) == [("k", [])]
    assert names(kernels_of([told({"k:1": ["addmm"]}, ORIGINALS)], exported)) == [("k", [])]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("graph_0_cpp_fused_relu_2", "cpp_fused_relu_2"),
        ("aoti_torch_cpu_addmm_out", "addmm_out"),
        ("extern_kernels.addmm", "addmm"),
        ("torch.ops.mkl._mkl_linear.default", "_mkl_linear"),
        ("mkl::_mkl_linear", "_mkl_linear"),
        ("aten::addmm", "addmm"),
    ],
)
def test_compiler_and_profiler_mean_one_name(name: str, expected: str) -> None:
    assert bare(name) == expected
