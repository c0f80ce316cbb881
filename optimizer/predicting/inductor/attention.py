"""Attention as PyTorch dispatches it on a CUDA device: one library call, in place of the products that a CPU makes.

Asked on a CPU, torch takes `scaled_dot_product_attention` apart. Flash attention: 16-bit, no mask, heads of up to 256.
Memory-efficient attention: what else has its heads aligned; a mask must be of the queries' dtype. All else is left to
be taken apart, as on the device.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten
LARGEST_FLASH_HEAD = 256
HALVES = (torch.bfloat16, torch.float16)


def as_on_cuda(graph: fx.Graph) -> int:
    """Replaces what the device would not take apart; how many there were."""
    replaced = 0
    for node in list(graph.nodes):
        if node.target is aten.scaled_dot_product_attention.default and _replace(graph, node):
            replaced += 1
    return replaced


def _replace(graph: fx.Graph, node: fx.Node) -> bool:
    given = _arguments(node)
    query, key, value = given["query"], given["key"], given["value"]
    shapes = [n.meta["val"] for n in (query, key, value)]
    if given["dropout_p"] or given["enable_gqa"] or any(s.dim() != 4 for s in shapes):
        return False
    dtype, head = shapes[0].dtype, shapes[0].shape[-1]
    if not isinstance(head, int) or any(s.shape[-1] != head for s in shapes):
        return False
    mask, causal, scale = given["attn_mask"], given["is_causal"], given["scale"]
    args: tuple[Any, ...]
    with graph.inserting_before(node):
        if mask is None and dtype in HALVES and head % 8 == 0 and head <= LARGEST_FLASH_HEAD:
            target = aten._scaled_dot_product_flash_attention.default
            args = (query, key, value, 0.0, causal, False)
        elif (mask is None or mask.meta["val"].dtype == dtype) and head * dtype.itemsize % 16 == 0:
            target = aten._scaled_dot_product_efficient_attention.default
            args = (query, key, value, mask, False, 0.0, causal)
        else:
            return False
        call = graph.call_function(target, args, {"scale": scale})
        out = graph.call_function(operator.getitem, (call, 0))
    call.meta = {key: value for key, value in node.meta.items() if key != "val"}
    out.meta = dict(node.meta)
    node.replace_all_uses_with(out)
    graph.erase_node(node)
    return True


def _arguments(node: fx.Node) -> dict[str, Any]:
    """By name, defaults filled in."""
    found = {}
    for place, argument in enumerate(node.target._schema.arguments):
        named = node.kwargs.get(argument.name, argument.default_value)
        found[argument.name] = node.args[place] if place < len(node.args) else named
    return found
