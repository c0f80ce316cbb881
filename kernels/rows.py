"""What kernels that work row by row share: tile sizes, the checks of their inputs and the shapes they are tried on.

A row is the last dimension; all others are flattened. Rows wider than a tile are walked in steps of the tile.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.spec import Tolerance, same_shape, same_size

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)

# The sum is rounded to the dtype, and so is the result: about one unit in the last place in all, the centring of a
# LayerNorm making the first an absolute error. float32 rounding inside is far below that.
TOLERANCES = {
    torch.float32: Tolerance(absolute=2e-6, relative=2e-6),
    torch.float16: Tolerance(absolute=2e-3, relative=2e-3),
    torch.bfloat16: Tolerance(absolute=1.6e-2, relative=1.6e-2),
}

SHAPES = ((1, 1), (5, 123), (3, 7, 64), (2, 4097), (33, 256))


@dataclass(frozen=True)
class Tile:
    """`rows` × `columns` elements of one program; `whole` when a row fits into it."""

    rows: int
    columns: int
    whole: bool
    warps: int


def tile(width: int, widest: int = 8192, elements: int = 1024) -> Tile:
    """Narrow rows share a program up to `elements`; a row wider than `widest` is walked in steps of half of that."""
    padded = 1 << max(width - 1, 0).bit_length()
    if padded > widest:
        return Tile(rows=1, columns=widest // 2, whole=False, warps=8)
    rows = max(1, elements // padded)
    return Tile(rows=rows, columns=padded, whole=True, warps=min(16, max(4, rows * padded // 512)))


def rows_of(x: Tensor) -> tuple[int, int]:
    """(rows, width) of a tensor; no rows for an empty one."""
    width = x.shape[-1]
    return (x.numel() // width if width else 0), width


def why_not(x: Tensor, residual: Tensor, parameters: dict[str, Tensor | None]) -> str | None:
    """Why a residual add with a norm over the last dimension cannot take these tensors; None when it can."""
    if x.dtype not in FLOATS:
        return f"the dtype is {x.dtype}, not a floating point one"
    if residual.dtype != x.dtype:
        return f"the summands have different dtypes: {x.dtype} and {residual.dtype}"
    if residual.device != x.device:
        return "the summands are on different devices"
    if x.dim() == 0 or not same_shape(x, residual):
        return f"the summands have different shapes: {tuple(x.shape)} and {tuple(residual.shape)}"
    for name, parameter in parameters.items():
        if parameter is None:
            continue
        if parameter.dim() != 1 or not same_size(parameter.shape[0], x.shape[-1]):
            return f"the {name}'s shape {tuple(parameter.shape)} is not the row's ({x.shape[-1]},)"
        if parameter.dtype not in FLOATS:
            return f"the {name} has dtype {parameter.dtype}"
    return None
