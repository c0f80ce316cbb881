"""What kernels that work row by row share: tile sizes, the checks of their inputs and the shapes they are tried on.

A row is the last dimension; all others are flattened. Rows wider than a tile are walked in steps of the tile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kernels.spec import Configuration, Launch, Tolerance, ceil_div, same_shape, same_size

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)

# The sum is rounded to the dtype, and so is the result: about one unit in the last place in all, the centring of a
# LayerNorm making the first an absolute error. float32 rounding inside is far below that.
TOLERANCES = {
    torch.float32: Tolerance(absolute=2e-6, relative=2e-6),
    torch.float16: Tolerance(absolute=2e-3, relative=2e-3),
    torch.bfloat16: Tolerance(absolute=1.6e-2, relative=1.6e-2),
}

# What only copies.
EXACT = dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), Tolerance(absolute=0.0, relative=0.0))

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


def configurations(width: int) -> tuple[Configuration, ...]:
    """The tile for this width first, then one half as wide, which walks the row, and one of twice the rows."""
    best = tile(width)
    found = [Configuration({"ROWS": best.rows, "COLUMNS": best.columns}, best.warps)]
    if best.columns >= 128:
        found.append(Configuration({"ROWS": best.rows, "COLUMNS": best.columns // 2}, max(1, best.warps // 2)))
    if best.rows * best.columns <= 4096:
        found.append(Configuration({"ROWS": best.rows * 2, "COLUMNS": best.columns}, best.warps))
    return tuple(found)


def launches(
    function: Callable[..., None],
    args: tuple[Any, ...],
    n_rows: int,
    width: int,
    chosen: Configuration,
    **constants: Any,
) -> list[Launch]:
    """One launch over all rows. The function also takes ROWS, COLUMNS and WHOLE."""
    if not n_rows or not width:
        return []
    constants = {**constants, **chosen.constants, "WHOLE": chosen["COLUMNS"] >= width}
    grid = (ceil_div(n_rows, chosen["ROWS"]),)
    return [Launch(function, grid, args, constants, chosen.num_warps, chosen.num_stages)]


def rows_of(x: Tensor) -> tuple[int, int]:
    """(rows, width) of a tensor; no rows for an empty one."""
    width = x.shape[-1]
    return (x.numel() // width if width else 0), width


def why_not_row(x: Tensor, parameters: dict[str, Tensor | None]) -> str | None:
    """Why an operation along the last dimension cannot take this tensor and these vectors; None when it can."""
    if x.dtype not in FLOATS:
        return f"the dtype is {x.dtype}, not a floating point one"
    if x.dim() == 0:
        return "a single number has no rows"
    for name, parameter in parameters.items():
        if parameter is None:
            continue
        if parameter.dim() != 1 or not same_size(parameter.shape[0], x.shape[-1]):
            return f"the {name}'s shape {tuple(parameter.shape)} is not the row's ({x.shape[-1]},)"
        if parameter.dtype not in FLOATS:
            return f"the {name} has dtype {parameter.dtype}"
    return None


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
    return why_not_row(x, parameters)


def why_not_jagged(values: Tensor, offsets: Tensor, rank: int) -> str | None:
    """Why a tensor of this rank with the offsets of its sequences cannot be taken; None when it can."""
    if values.dtype not in FLOATS:
        return f"the dtype is {values.dtype}, not a floating point one"
    if values.dim() != rank:
        return f"the values have {values.dim()} dimensions, not {rank}"
    if offsets.dtype not in (torch.int64, torch.int32) or offsets.dim() != 1:
        return f"the offsets are {offsets.dtype} of {offsets.dim()} dimensions, not a vector of integers"
    return None
