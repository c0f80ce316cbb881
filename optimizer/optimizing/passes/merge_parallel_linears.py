"""Linear layers on one input become one linear layer with stacked weights: QKV, gates, SwiGLU's gate and up.

`y_i = x W_i^T + b_i` for i = 1..k equals slices of `x [W_1; ..; W_k]^T + [b_1; ..; b_k]`: one pass over x and one
larger GEMM. Not for layers whose inputs differ (an expert's second layer), nor when a weight is not constant. What the
caller gets is copied out: two outputs never share memory that they did not share before.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import fx

from optimizer.optimizing.base import Pass, PassOptions, Report, register_pass
from optimizer.optimizing.graph import Graph
from optimizer.optimizing.matching import ConstantLinear, constant_linear
from optimizer.optimizing.memory import handed_back, own_memory

aten = torch.ops.aten


@register_pass
class MergeParallelLinears(Pass):
    name = "merge_parallel_linears"
    title = "Merge parallel linear layers"
    summary = "Linear layers on the same input become one linear layer and views of its output."
    numerics: ClassVar[Literal["exact", "reassociates"]] = "exact"
    order = 100

    class Options(PassOptions):
        min_width: int = Field(default=2, ge=1, description="output features of the merged layer, at least")
        max_width: int = Field(default=65536, ge=1, description="output features of the merged layer, at most")
        max_member_width: int | None = Field(
            default=None, ge=1, description="wider layers stay alone (they fill the machine by themselves)"
        )
        max_group: int = Field(default=64, ge=2, description="layers merged into one, at most")

    def apply(self, graph: Graph, options: Options, report: Report) -> None:
        for group in _groups(graph, report):
            members = []
            for linear in group:
                width = linear.weight.shape[0]
                if options.max_member_width is not None and width > options.max_member_width:
                    reason = f"{width} output features exceed max_member_width {options.max_member_width}"
                    report.refused(linear.node, reason)
                else:
                    members.append(linear)
            for chunk in _chunks(members, options, report):
                _merge(graph, chunk, report)


def _groups(graph: Graph, report: Report) -> list[list[ConstantLinear]]:
    """Constant linears by input, in graph order; a near miss on a shared input is reported."""
    found: dict[tuple[fx.Node, torch.dtype], list[ConstantLinear]] = {}
    misses: list[tuple[fx.Node, fx.Node, str]] = []
    for node in graph.operations(aten.linear, aten.matmul, aten.mm, aten.addmm, aten.einsum):
        linear = constant_linear(graph, node)
        if isinstance(linear, ConstantLinear):
            found.setdefault((linear.input, linear.weight.dtype), []).append(linear)
        elif isinstance(linear, str):
            misses.append((node, node.all_input_nodes[0], linear))
    shared = {source for (source, _), group in found.items() if group}
    for node, source, reason in misses:
        if source in shared:
            report.refused(node, reason)
    return [group for group in found.values() if len(group) > 1]


def _chunks(
    members: list[ConstantLinear], options: MergeParallelLinears.Options, report: Report
) -> list[list[ConstantLinear]]:
    chunks: list[list[ConstantLinear]] = [[]]
    for linear in members:
        if linear.weight.shape[0] > options.max_width:
            width = linear.weight.shape[0]
            report.refused(linear.node, f"{width} output features exceed max_width {options.max_width}")
            continue
        if len(chunks[-1]) == options.max_group or _width([*chunks[-1], linear]) > options.max_width:
            chunks.append([])
        chunks[-1].append(linear)
    merged = [chunk for chunk in chunks if len(chunk) > 1]
    for chunk in merged:
        if _width(chunk) < options.min_width:
            report.refused(chunk[0].node, f"merged width {_width(chunk)} is below min_width {options.min_width}")
    return [chunk for chunk in merged if _width(chunk) >= options.min_width]


def _width(chunk: list[ConstantLinear]) -> int:
    return sum(linear.weight.shape[0] for linear in chunk)


def _merge(graph: Graph, chunk: list[ConstantLinear], report: Report) -> None:
    first = chunk[0].node
    widths = [linear.weight.shape[0] for linear in chunk]
    weight = graph.constant(torch.cat([linear.weight for linear in chunk]), f"{first.name}_merged_weight")
    bias = None
    if any(linear.bias is not None for linear in chunk):
        parts = [c.weight.new_zeros(c.weight.shape[0]) if c.bias is None else c.bias for c in chunk]
        bias = graph.constant(torch.cat(parts), f"{first.name}_merged_bias")
    # before the first member: its input is known there, and no other member stands earlier
    merged = graph.call(aten.linear.default, chunk[0].input, weight, bias, before=first, like=first)
    parts_node = graph.call(aten.split_with_sizes.default, merged, widths, -1, before=first, like=first)
    for index, linear in enumerate(chunk):
        what = f"part {index + 1} of {len(chunk)} of one linear layer with {sum(widths)} output features"
        report.applied(linear.node, what)
        part = graph.item(parts_node, index, before=first, like=linear.node)
        if handed_back(graph, linear.node):
            part = own_memory(graph, part, before=first, like=linear.node)
        graph.replace(linear.node, part)
