"""What kernels around a matrix product share: tile sizes, tolerances and checks. Tiles are at least 16 on each side."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels import rows
from kernels.spec import Configuration, Tolerance, configuration, same_size

# Sums over some hundred products of standard normal numbers, and one rounding of the result (two where the product
# itself is rounded before the epilogue).
TOLERANCES = {
    torch.float32: Tolerance(absolute=5e-5, relative=2e-5),
    torch.float16: Tolerance(absolute=1e-2, relative=4e-3),
    torch.bfloat16: Tolerance(absolute=6e-2, relative=2e-2),
}

# Large, for long batches; wide and flat, for short ones; small.
CONFIGURATIONS = (
    configuration(num_warps=4, num_stages=3, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32),
    configuration(num_warps=8, num_stages=3, BLOCK_M=128, BLOCK_N=64, BLOCK_K=32),
    configuration(num_warps=4, num_stages=4, BLOCK_M=16, BLOCK_N=64, BLOCK_K=64),
)


def configurations() -> tuple[Configuration, ...]:
    return CONFIGURATIONS


def why_not_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> str | None:
    """Why `x @ weight.T + bias` is not one of [..., k] by [n, k] in a single float dtype; None when it is."""
    if x.dtype not in rows.FLOATS:
        return f"the dtype is {x.dtype}, not a floating point one"
    if weight.dtype != x.dtype:
        return f"the weight has dtype {weight.dtype}, the input {x.dtype}"
    if x.dim() < 2 or weight.dim() != 2 or not same_size(weight.shape[1], x.shape[-1]):
        return f"a weight {tuple(weight.shape)} does not fit an input {tuple(x.shape)}"
    if bias is not None and (bias.dim() != 1 or not same_size(bias.shape[0], weight.shape[0])):
        return f"the bias {tuple(bias.shape)} is not one value per output"
    if bias is not None and bias.dtype != x.dtype:
        return f"the bias has dtype {bias.dtype}, the input {x.dtype}"
    return None
