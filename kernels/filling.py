"""Values for a kernel's typical arguments, which have shapes and no memory: for launches on a device that is there.

Floats are standard normal. What an integer must be follows from its argument's name and from the tensors beside it; an
integer argument without a rule here is refused, since a wrong index ends a whole CUDA context.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from kernels.spec import Kernel, Sample

Given = Mapping[str, Any]
HASH_BUCKETS = 1_000_000
IDS_BELOW = 2**31 - 1
SEEN = 0.7  # of a mask


class NoRule(LookupError):
    """An integer argument whose values nobody has said. The message names it."""


def filled(kernel: Kernel, sample: Sample, device: str) -> Sample:
    """The sample with memory and values on the device. Raises NoRule."""
    names = [argument.name for argument in kernel.op._schema.arguments]
    given = dict(zip(names, sample.args, strict=True))
    draw = torch.Generator(device).manual_seed(0)
    args = tuple(_value(name, value, given, draw) for name, value in given.items())
    return Sample(sample.name, args)


def bytes_of(sample: Sample) -> int:
    """Of all its tensors, each counted once for each argument."""
    return sum(value.numel() * value.element_size() for value in sample.args if isinstance(value, Tensor))


def _value(name: str, value: Any, given: Given, draw: torch.Generator) -> Any:
    if not isinstance(value, Tensor):
        return value
    device = draw.device
    if value.dtype == torch.bool:
        return torch.rand(value.shape, generator=draw, device=device) < SEEN
    if value.is_floating_point():
        drawn = torch.randn(value.shape, generator=draw, device=device, dtype=value.dtype)
        if name == "boundaries":
            return drawn.sort(-1).values
        return drawn.abs() if name == "state" else drawn
    if value.dtype == torch.int8:
        return torch.randint(-128, 128, value.shape, generator=draw, device=device, dtype=value.dtype)
    rule = INTEGERS.get(name)
    if rule is None:
        raise NoRule(f"nobody has said what the integer argument {name} holds (kernels/filling.py)")
    return rule(value, given, draw).to(value.dtype)


# ---- integers, by the argument's name -----------------------------------------------------------------------------


def _below(shape: torch.Size, end: int, draw: torch.Generator) -> Tensor:
    return torch.randint(0, max(end, 1), shape, generator=draw, device=draw.device)


def _ids(value: Tensor, given: Given, draw: torch.Generator) -> Tensor:
    """Rows of the table beside them; of tables that lie behind one another, of the smallest."""
    if "table" not in given:
        return _below(value.shape, IDS_BELOW, draw)
    tables = given["row_offsets"].numel() if "row_offsets" in given else 1
    return _below(value.shape, given["table"].shape[0] // tables, draw)


def _evenly(count: int, total: int, draw: torch.Generator) -> Tensor:
    """`count + 1` places from 0 to `total`."""
    return torch.arange(count + 1, device=draw.device) * total // max(count, 1)


def _offsets(value: Tensor, given: Given, draw: torch.Generator) -> Tensor:
    """Of an embedding bag: where each begins. Of sequences: also where the last ends. All are equally long."""
    if "ids" in given:
        return _evenly(value.numel(), given["ids"].numel(), draw)[:-1]
    total = given["total"] if "total" in given else given["values" if "values" in given else "q"].shape[0]
    return _evenly(value.numel() - 1, total, draw)


def _row_offsets(value: Tensor, given: Given, draw: torch.Generator) -> Tensor:
    return _evenly(value.numel(), given["table"].shape[0], draw)[:-1]


def _target(value: Tensor, given: Given, draw: torch.Generator) -> Tensor:
    classes = given["weight"].shape[0] if "weight" in given else given["logits"].shape[-1]
    return _below(value.shape, classes, draw)


def _sizes(value: Tensor, given: Given, draw: torch.Generator) -> Tensor:
    return torch.full(value.shape, HASH_BUCKETS, device=draw.device)


def _field(value: Tensor, given: Given, draw: torch.Generator) -> Tensor:
    return _below(value.shape, given["x"].shape[1], draw)


INTEGERS: dict[str, Callable[[Tensor, Given, torch.Generator], Tensor]] = {
    "ids": _ids, "offsets": _offsets, "row_offsets": _row_offsets, "target": _target, "sizes": _sizes,
    "first": _field, "second": _field,
}  # fmt: skip
