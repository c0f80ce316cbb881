"""What a call into a library moves and computes at the least: from its tensors' shapes alone.

Each distinct tensor is read or written once; an embedding bag reads a row for each index, as if all were distinct.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from kernels.aot.devices import Device
from kernels.aot.roofline import Bound, bound
from optimizer.predicting.inductor.replay import Called

# The table is the first argument, what indexes it the second.
GATHERS = frozenset({"_embedding_bag", "_embedding_bag_forward_only"})
# Their products run on tensor cores; float32 does not, because Fuseworks pins it (no TensorFloat-32).
ON_TENSOR_CORES = frozenset({torch.bfloat16, torch.float16, torch.int8, torch.float64})


@dataclass(frozen=True)
class ExternWork:
    name: str
    shapes: list[str]
    dtype: str
    bytes: int
    bound: Bound


def work_of(call: Called, device: Device) -> ExternWork:
    dtype = next((t.dtype for t in call.tensors if t.dtype.is_floating_point), None)
    dtype = dtype or (call.tensors[0].dtype if call.tensors else torch.float32)
    moved = _bytes(call)
    plain = _plain(dtype)
    return ExternWork(
        name=str(call.operation),
        shapes=[f"{_plain(t.dtype)}{list(t.shape)}" for t in call.tensors],
        dtype=plain,
        bytes=moved,
        bound=bound(device, bytes=moved, flops=call.flops, dtype=plain, tensor_cores=dtype in ON_TENSOR_CORES),
    )


def _bytes(call: Called) -> int:
    sizes = {id(t): min(t.numel() * t.element_size(), t.untyped_storage().nbytes()) for t in call.tensors}
    if call.operation.overloadpacket.__name__ in GATHERS:
        table, indices = call.args[0], call.args[1]
        sizes[id(table)] = min(sizes.get(id(table), 0), indices.numel() * table.shape[-1] * table.element_size())
    return sum(sizes.values())


def _plain(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
