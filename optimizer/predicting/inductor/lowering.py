"""An exported program lowered by Inductor for a GPU that is not there: the wrapper that it writes, and what it knew.

The program keeps its dynamic dims; sizes are set as hints, so that Inductor chooses as it would in serving. Not done,
because they need the device: constant folding, padding of matrix products, tuning, recognising hand-written attention.
"""

from __future__ import annotations

import contextlib
import copy
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from optimizer.predicting.inductor.attention import as_on_cuda
from optimizer.predicting.inductor.traffic import Traffic, traffic

DEVICE = torch.device("cuda:0")


@dataclass
class Lowered:
    """`inputs`: what the wrapper takes, tensors on the meta device. `traffic`: of each kernel, in the order of its
    launches. `externs`: the graph's nodes behind each library call, in the order of the wrapper."""

    wrapper: str
    inputs: list[Any]
    constants: dict[str, Any]
    traffic: dict[str, list[Traffic]]
    externs: list[tuple[str, tuple[Any, ...]]]
    seconds: float
    outputs: int = 0
    notes: list[str] = field(default_factory=list)


class _Finished(BaseException):
    """The wrapper is written: nothing after that works without the device."""


def lower(exported: ExportedProgram, sizes: dict[Any, int]) -> Lowered:
    """Within `absent_gpu`. `sizes`: the size of each symbol of the program's shapes. Raises what Inductor raises."""
    from torch._guards import TracingContext, tracing
    from torch._inductor import compile_fx, config
    from torch._inductor.codegen.triton import TritonScheduling
    from torch._inductor.graph import GraphLowering

    began = time.perf_counter()
    module, inputs, fake_mode = on_device(exported)
    _set_hints(fake_mode, sizes)
    found: list[Lowered] = []
    kernels: dict[str, list[Traffic]] = defaultdict(list)
    define_kernel = TritonScheduling.define_kernel

    def defined(self: Any, source: str, node_schedule: Any, kernel: Any) -> str:
        name: str = define_kernel(self, source, node_schedule, kernel)
        schedule = getattr(node_schedule, "node_schedule", node_schedule)
        kernels[name].append(traffic(schedule, kernel))
        return name

    def written(self: Any) -> None:
        code, _ = self.codegen()
        found.append(
            Lowered(
                wrapper=getattr(code, "value", code),
                inputs=[_meta(self, name) for name in self.graph_input_names],
                constants={name: value.to("meta") for name, value in self.constants.items()},
                traffic=dict(kernels),
                externs=_externs(self),
                seconds=time.perf_counter() - began,
            )
        )
        raise _Finished

    with (
        mock.patch.object(TritonScheduling, "define_kernel", defined),
        mock.patch.object(GraphLowering, "compile_to_module", written),
        config.patch(
            fx_graph_cache=False,
            force_disable_caches=True,
            shape_padding=False,
            joint_graph_constant_folding=False,
            compile_threads=1,
        ),
        tracing(TracingContext(fake_mode)),
        torch.no_grad(),
        contextlib.suppress(_Finished),
    ):
        compile_fx.compile_fx(module, inputs)
    if not found:  # a graph without a computation is not lowered
        return Lowered("", [], {}, {}, [], time.perf_counter() - began)
    return found[0]


def on_device(exported: ExportedProgram) -> tuple[fx.GraphModule, list[Any], FakeTensorMode]:
    """The program's graph, weights lifted to inputs, with fake inputs on the device, in its own fake mode."""
    module = copy.deepcopy(exported.graph_module)
    for graph in (m.graph for m in module.modules() if isinstance(m, fx.GraphModule)):
        for node in list(graph.nodes):
            if node.target is torch.ops.aten._assert_tensor_metadata.default:
                graph.erase_node(node)
                continue
            node.args, node.kwargs = pytree.tree_map_only(torch.device, lambda _: DEVICE, (node.args, node.kwargs))
        as_on_cuda(graph)
    module.recompile()
    values = [node.meta["val"] for node in module.graph.nodes if node.op == "placeholder"]
    fake_mode = next((v.fake_mode for v in values if isinstance(v, FakeTensor)), None) or FakeTensorMode()
    with fake_mode:
        inputs = [
            torch.empty_strided(v.size(), v.stride(), dtype=v.dtype, device=DEVICE) if isinstance(v, FakeTensor) else v
            for v in values
        ]
    return module, inputs, fake_mode


def _set_hints(fake_mode: FakeTensorMode, sizes: dict[Any, int]) -> None:
    import sympy

    known = fake_mode.shape_env.backed_var_to_val if fake_mode.shape_env is not None else {}
    for derived in [key for key in known if not isinstance(key, sympy.Symbol)]:
        del known[derived]  # a loaded program holds sizes such as 3*s23, on which Inductor stumbles
    for symbol, size in sizes.items():
        if symbol in known:
            known[symbol] = sympy.Integer(size)


def _meta(graph: Any, name: str) -> Any:
    """One input of the wrapper at the hinted sizes."""
    value = graph.graph_inputs[name]
    hint = graph.sizevars.optimization_hint
    if not hasattr(value, "get_size"):
        return hint(value)
    size, stride = ([int(hint(s)) for s in sizes] for sizes in (value.get_size(), value.get_stride()))
    return torch.empty_strided(size, stride, dtype=value.get_dtype(), device="meta")


def _externs(graph: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """The library calls as Inductor ordered them: operation and the graph's nodes behind it."""
    from torch._inductor.scheduler import ExternKernelSchedulerNode

    nodes = [n for n in graph.scheduler.nodes if isinstance(n, ExternKernelSchedulerNode)]
    return [(str(getattr(n.node, "python_kernel_name", None)), tuple(n.node.get_origins())) for n in nodes]
