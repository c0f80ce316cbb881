"""In-place operations of a graph: turned into functional ones where that is safe, marked as off limits where not.

`x.relu_()` on a fresh tensor becomes `relu(x)`. What still shares memory with something that is written in place
(a mutated buffer, a view of it) is "tainted": no pass may match it, since moving it across the write changes results.
"""

from __future__ import annotations

import operator

import torch
from torch import fx

# Operations that may hand back (a view of) their input although their schema does not say so.
_MAYBE_ALIAS = {
    torch.ops.aten.reshape.default,
    torch.ops.aten.contiguous.default,
    torch.ops.aten.flatten.using_ints,
    torch.ops.aten.to.dtype,
    torch.ops.aten.to.dtype_layout,
    torch.ops.aten.to.device,
    torch.ops.aten.to.other,
    torch.ops.aten.type_as.default,
    torch.ops.aten.dropout.default,
    torch.ops.aten.expand_as.default,
    torch.ops.aten.einsum.default,
}


def written_inputs(node: fx.Node) -> list[fx.Node]:
    """The nodes whose memory this operation writes."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return []
    if node.target is torch.ops.aten.detach_.default:  # it cuts off gradients and writes nothing
        return []
    found: list[fx.Node] = []
    for index, argument in enumerate(node.target._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = node.args[index] if index < len(node.args) else node.kwargs.get(argument.name)
        found += [n for n in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(n, fx.Node)]
    return found


def shares_memory(node: fx.Node) -> list[fx.Node]:
    """The inputs that this node's value may be a view of."""
    if node.op != "call_function":
        return []
    if node.target is operator.getitem and _is_fresh_result(node):
        return []
    if not isinstance(node.target, torch._ops.OpOverload):
        return list(node.all_input_nodes)  # higher-order operations: assume the worst
    schema = node.target._schema
    if node.target in _MAYBE_ALIAS or any(r.alias_info is not None for r in schema.returns):
        return list(node.all_input_nodes)
    return []


def _is_fresh_result(taken: fx.Node) -> bool:
    """One of several results that are new memory, as `topk` gives, and that is taken once."""
    source = taken.args[0]
    if not isinstance(source, fx.Node) or not isinstance(source.target, torch._ops.OpOverload):
        return False
    twins = [user for user in source.users if user.target is operator.getitem and user.args == taken.args]
    return len(twins) == 1 and not shares_memory(source)


def tainted(graph: fx.Graph) -> set[fx.Node]:
    """All nodes that share memory with something written in place, the writers, and those that read such memory: what
    a reader gives depends on where it stands."""
    if not any(written_inputs(node) for node in graph.nodes):
        return set()
    family: dict[fx.Node, set[fx.Node]] = {}
    for node in graph.nodes:
        group = {node}
        for source in shares_memory(node):
            group |= family[source]
        for member in group:
            family[member] = group
    result: set[fx.Node] = set()
    for node in graph.nodes:
        for target in written_inputs(node):
            result |= {node} | family[target]
    return result | {user for node in result for user in node.users if user.op == "call_function"}


def functionalise(graph: fx.Graph) -> None:
    """Replaces `op_(x)` by `op(x)` where x is a fresh tensor that nothing else looks into."""
    order = {node: index for index, node in enumerate(graph.nodes)}
    for node in list(graph.nodes):
        functional = _functional_twin(node)
        if functional is None:
            continue
        target = node.args[0]
        if not isinstance(target, fx.Node) or target.op != "call_function" or shares_memory(target):
            continue
        if any(target in shares_memory(user) for user in target.users if user is not node):
            continue
        node.target = functional
        node.meta["torch_fn"] = (functional.name(), f"OpOverload.{functional._schema.name}")
        # the old name meant the overwritten value from here on
        target.replace_all_uses_with(node, delete_user_cb=lambda user, at=order[node]: order[user] > at)


def _functional_twin(node: fx.Node) -> torch._ops.OpOverload | None:
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return None
    name = node.target._schema.name.removeprefix("aten::")
    if not node.target.name().startswith("aten::") or not name.endswith("_") or name.endswith("__"):
        return None
    packet = getattr(torch.ops.aten, name[:-1], None)
    twin = getattr(packet, node.target._overloadname, None) if packet is not None else None
    if twin is None or twin._schema.is_mutable:
        return None
    same = [a.name for a in twin._schema.arguments] == [a.name for a in node.target._schema.arguments]
    return twin if same and len(twin._schema.returns) == 1 else None
