"""Rotary position embedding of one tensor, with the two halves of the last dimension rotated against each other.

    out = x * cos + rotate_half(x) * sin,  rotate_half([a, b]) = [-b, a]

cos and sin broadcast over x. Computed in float32 (float64 for float64 inputs) and rounded once.

Source: Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021 (arXiv 2104.09864).
Not for: pairs of neighbours (GPT-J's form), a rotation of a part of the head, or more than four dimensions.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.fx import Node

from kernels import patterns, rows
from kernels.inputs import meta, normal
from kernels.patterns import Found, Made, add, anything, arguments, aten, call, is_dim, mul, sub, tensor, value
from kernels.spec import (
    Configuration,
    Cost,
    Kernel,
    Launch,
    Match,
    Mismatch,
    Sample,
    ceil_div,
    configuration,
    power_of_two,
    register,
    same_size,
)

tl: Any = None  # triton.language: `jit` sets it


def _kernel(  # type: ignore[no-untyped-def]
    x_ptr,
    cos_ptr,
    sin_ptr,
    out_ptr,
    n_rows,
    half,
    heads,
    length,
    x_batch,
    x_head,
    x_step,
    angle_batch,
    angle_head,
    angle_step,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)  # int64: an offset may pass 2**31
    column = tl.arange(0, COLUMNS)[None, :]
    step = row % length
    head = (row // length) % heads
    batch = row // (length * heads)
    mask = (row < n_rows)[:, None] & (column < half)
    first = (batch * x_batch + head * x_head + step * x_step)[:, None] + column
    angle = (batch * angle_batch + head * angle_head + step * angle_step)[:, None] + column
    a = tl.load(x_ptr + first, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(x_ptr + first + half, mask=mask, other=0.0).to(tl.float32)
    cos_a = tl.load(cos_ptr + angle, mask=mask, other=0.0).to(tl.float32)
    cos_b = tl.load(cos_ptr + angle + half, mask=mask, other=0.0).to(tl.float32)
    sin_a = tl.load(sin_ptr + angle, mask=mask, other=0.0).to(tl.float32)
    sin_b = tl.load(sin_ptr + angle + half, mask=mask, other=0.0).to(tl.float32)
    at = row[:, None] * (2 * half) + column
    tl.store(out_ptr + at, (a * cos_a - b * sin_a).to(out_ptr.dtype.element_ty), mask=mask)
    tl.store(out_ptr + at + half, (b * cos_b + a * sin_b).to(out_ptr.dtype.element_ty), mask=mask)


_A, _B, _X, _COS, _SIN = (tensor(name) for name in ("a", "b", "x", "cos", "sin"))
_ROTATED = call(aten.cat.default, [call(aten.neg.default, _B), _A], anything("joined"))


def _part(node: Node) -> tuple[Node, int, int] | None:
    """(x, begin, end) when the node is a part of x along its last dimension."""
    if node.target is aten.slice.Tensor:
        given = arguments(node)
        x, begin, end = given["self"], given["start"] or 0, given["end"]
        size = value(x).shape[-1]
        if not isinstance(size, int) or not isinstance(begin, int) or given["step"] != 1:
            return None
        end = size if end is None or not isinstance(end, int) else min(end, size)
        found = (x, begin % size if begin < 0 else begin, end % size if end < 0 else end)
        return found if is_dim(given["dim"], -1, value(x).dim()) else None
    if node.target is not operator.getitem or not isinstance(node.args[0], Node):
        return None
    split, index = node.args[0], node.args[1]
    if split.target not in (aten.chunk.default, aten.split.Tensor, aten.tensor_split.sections):
        return None
    given = arguments(split)
    width, size = value(node).shape[-1], value(given["self"]).shape[-1]
    halved = isinstance(size, int) and isinstance(width, int) and 2 * width == size
    if not halved or not is_dim(given["dim"], -1, value(node).dim()):
        return None
    return given["self"], index * width, (index + 1) * width


@register
class Rope(Kernel):
    name = "rope"
    schema = "(Tensor x, Tensor cos, Tensor sin) -> Tensor"
    tolerances = rows.TOLERANCES
    breadth = 4
    patterns: ClassVar[dict[str, Any]] = {
        "x * cos + cat(-x[half:], x[:half]) * sin": add(mul(_X, _COS), mul(_ROTATED, _SIN)),
        "cat(a * cos - b * sin, b * cos + a * sin), a and b the halves of x": call(
            aten.cat.default,
            [sub(mul(_A, _COS), mul(_B, _SIN)), add(mul(_B, _COS), mul(_A, _SIN))],
            anything("joined"),
        ),
    }

    def match(self, anchor: Node) -> Match | Mismatch | None:
        """The two halves are views: they stay where something else needs them, and are no part of the match."""
        missed: Mismatch | None = None
        for found in (found for pattern in self.patterns.values() for found in patterns.every(pattern, anchor)):
            a, b = _part(found["a"]), _part(found["b"])
            if a is None or b is None or a[0] is not b[0] or found.get("x", a[0]) is not a[0]:
                continue
            one = self._of_halves(anchor, found, a, b)
            if isinstance(one, Match):
                return one
            missed = missed or one
        return missed

    def _of_halves(
        self, anchor: Node, found: Found, a: tuple[Node, int, int], b: tuple[Node, int, int]
    ) -> Match | Mismatch:
        x = a[0]
        size = value(x).shape[-1]
        if not isinstance(size, int) or size % 2:
            return Mismatch("the last dimension cannot be halved", anchor)
        if a[1:] != (0, size // 2) or b[1:] != (size // 2, size):
            return Mismatch("the two parts are not the two halves", anchor)
        if not is_dim(found["joined"], -1, value(x).dim()):
            return Mismatch("the rotation is not along the last dimension", anchor)
        angles = [found["cos"], found["sin"]]
        if "x" not in found.values:
            angles = [Made(aten.cat.default, ([angle, angle], -1)) for angle in angles]
        return self.complete((x, *angles), (anchor,), found.inside)

    def reference(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        a, b = wide.chunk(2, -1)
        return (wide * cos.to(wide.dtype) + torch.cat((-b, a), -1) * sin.to(wide.dtype)).to(x.dtype)

    def fake(self, x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        return (torch.empty(x.shape, dtype=x.dtype, device=x.device),)

    def configurations(self, x: Tensor, *rest: Any) -> tuple[Configuration, ...]:
        columns = power_of_two(x.shape[-1] // 2)
        few = max(1, 512 // columns)
        return (configuration(ROWS=few, COLUMNS=columns), configuration(num_warps=8, ROWS=few * 4, COLUMNS=columns))

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        x, cos, sin = args
        n_rows, width = rows.rows_of(x)
        if not n_rows:
            return []
        x, cos, sin = (t if t.stride(-1) == 1 else t.contiguous() for t in (x, cos.contiguous(), sin.contiguous()))
        x, cos, sin = (t[(None,) * (4 - t.dim())] for t in (x, cos, sin))
        cos = cos.expand_as(x)
        if cos.stride() != sin.expand_as(x).stride():  # one set of strides for both
            cos, sin = cos.contiguous(), sin.expand_as(x).contiguous()
        sizes = (n_rows, width // 2, x.shape[1], x.shape[2], *x.stride()[:3], *cos.stride()[:3])
        grid = (ceil_div(n_rows, configuration["ROWS"]),)
        given = (x, cos, sin, *outputs, *sizes)
        return [
            Launch(_kernel, grid, given, configuration.constants, configuration.num_warps, configuration.num_stages)
        ]

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        x = normal(2, 3, 5, 12, dtype=dtype)
        angles = [normal(5, 12, dtype=dtype, seed=s) for s in (1, 2)]
        per_row = [normal(2, 1, 5, 12, dtype=dtype, seed=s) for s in (3, 4)]
        return [
            Sample("angles of a step", (x, *angles)),
            Sample("angles of a row", (x, *per_row)),
            Sample("heads behind steps", (normal(2, 5, 3, 12, dtype=dtype).transpose(1, 2), *angles)),
            Sample("two dimensions", (x[0, 0], *angles)),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        x = normal(1, 2, 3, 2, dtype=dtype, scale=100.0)
        angles = [normal(3, 2, dtype=dtype, seed=s) for s in (1, 2)]
        return [
            Sample("one pair", (x, *angles)),
            Sample("different layouts", (x, angles[0], angles[1].expand(1, 2, 3, 2))),
            Sample("nothing", (x[:0], *angles)),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        angle = meta(2048, 128, dtype=dtype)
        return Sample("4x32x2048x128", (meta(4, 32, 2048, 128, dtype=dtype), angle, angle))

    def check(self, x: Tensor, cos: Tensor, sin: Tensor) -> str | None:
        if x.dtype not in rows.FLOATS:
            return f"the dtype is {x.dtype}, not a floating point one"
        if not 1 < x.dim() < 5:
            return f"x has {x.dim()} dimensions, not 2 to 4"
        if not isinstance(x.shape[-1], int) or x.shape[-1] % 2:
            return "the last dimension cannot be halved"
        for name, angle in (("cos", cos), ("sin", sin)):
            if angle.dtype != x.dtype:
                return f"{name} has dtype {angle.dtype}, x {x.dtype}"
            sizes = zip(reversed(angle.shape), reversed(x.shape), strict=False)
            fits = all(same_size(a, b) or (i > 0 and same_size(a, 1)) for i, (a, b) in enumerate(sizes))
            if angle.dim() > x.dim() or not fits:
                return f"{name} {tuple(angle.shape)} does not broadcast over x {tuple(x.shape)}"
        return None

    def cost(self, x: Tensor, cos: Tensor, sin: Tensor) -> Cost:
        return Cost(bytes=(2 * x.numel() + cos.numel() + sin.numel()) * x.element_size(), flops=3 * x.numel())
