"""How people write common pieces of a graph, in the language of `patterns`: activations, softmax, layers, layouts."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from kernels.patterns import (
    Call,
    Either,
    Found,
    Hole,
    Made,
    Pattern,
    add,
    anything,
    aten,
    call,
    either,
    is_number,
    mul,
    optional,
    shared,
    tensor,
)


def squared(x: Pattern) -> Either:
    return either(call(aten.pow.Tensor_Scalar, x, 2), call(aten.square.default, x), mul(x, x))


def silu(x: Pattern) -> Either:
    return either(call(aten.silu.default, x), mul(x, call(aten.sigmoid.default, x)))


def close_to(value: float) -> Hole:
    """A number that is this one but for its last digits."""
    return Hole("_", lambda found: is_number(found) and abs(found - value) <= 1e-6 * abs(value))


def gelu_tanh_by_hand(x: Pattern) -> Call:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), also with x factored out inside."""
    cube = either(call(aten.pow.Tensor_Scalar, x, 3), mul(mul(x, x), x))
    root, share = close_to(0.7978845608028654), close_to(0.044715)
    square = either(mul(squared(x), share), mul(mul(x, share), x))
    inner = either(mul(add(x, mul(cube, share)), root), mul(mul(x, root), add(square, 1)))
    return mul(mul(x, 0.5), add(call(aten.tanh.default, inner), 1))


def gelu_erf_by_hand(x: Pattern) -> Call:
    """0.5 x (1 + erf(x / sqrt(2)))"""
    inner = either(call(aten.div.Tensor, x, close_to(2**0.5)), mul(x, close_to(0.5**0.5)))
    return mul(mul(x, 0.5), add(call(aten.erf.default, inner), 1))


def softmax(x: Pattern, dim: Pattern) -> Either:
    return either(call(aten.softmax.int, x, dim, anything()), call(aten._softmax.default, x, dim, anything()))


def swapped(x: Pattern, a: int, b: int, rank: int) -> Either:
    """Two dimensions of a tensor of so many exchanged; it may have other users."""
    order = [b if d == a else a if d == b else d for d in range(rank)]
    pairs = itertools.product((a, a - rank), (b, b - rank))
    turned = [shared(call(aten.transpose.int, x, *dims)) for pair in pairs for dims in (pair, pair[::-1])]
    views = [aten.mT.default] if (a, b) == (rank - 2, rank - 1) else []
    views += [aten.t.default, aten.numpy_T.default] if rank == 2 else []
    return either(*turned, shared(call(aten.permute.default, x, order)), *[shared(call(v, x)) for v in views])


def einsum(equation: str, first: Pattern, second: Pattern) -> Either:
    """An einsum of two operands in either order, whatever its letters are."""
    left, right = equation.partition("->")[0].split(",")
    exchanged = equation.replace(f"{left},{right}", f"{right},{left}")
    return either(
        call(aten.einsum.default, _letters(equation), [first, second]),
        call(aten.einsum.default, _letters(exchanged), [second, first]),
    )


def _letters(equation: str) -> Hole:
    def canonical(text: str) -> str:
        names: dict[str, str] = {}
        text = text.replace(" ", "")
        return "".join(names.setdefault(c, f"<{len(names)}>") if c.isalpha() else c for c in text)

    wanted = canonical(equation)
    return Hole("_", lambda found: isinstance(found, str) and canonical(found) == wanted)


def linear(x: Pattern, weight: Callable[[str], Pattern] = tensor) -> Either:
    """A linear layer, however written: `weight` is [out, in], or `columns` is [in, out]; see `weight_of`. The bias is
    `bias`, or none."""
    turned = swapped(weight("weight"), 0, 1, 2)
    product = either(
        call((aten.matmul.default, aten.mm.default), x, turned),
        call((aten.matmul.default, aten.mm.default), x, weight("columns")),
    )
    return either(
        call(aten.linear.default, x, weight("weight"), bias=optional("bias")),
        add(product, tensor("bias")),
        product,
        call(aten.addmm.default, tensor("bias"), x, turned),
        call(aten.addmm.default, tensor("bias"), x, weight("columns")),
    )


def weight_of(found: Found) -> Any:
    """The weight of a `linear`, [out, in]."""
    weight = found.get("weight")
    return Made(aten.t.default, (found["columns"],)) if weight is None else weight


def column(x: Pattern) -> Either:
    """A vector with a dimension of size 1 behind it; it may have other users."""
    return behind(x, 1)


def behind(x: Pattern, rank: int) -> Either:
    """A tensor of so many dimensions with one of size 1 behind them; it may have other users."""
    return either(*[shared(call(aten.unsqueeze.default, x, dim)) for dim in (rank, -1)])


def repeated(x: Pattern) -> Either:
    """A vector of each sample, given to each of its steps: [batch, width] to [batch, steps, width]."""
    row = shared(call(aten.unsqueeze.default, x, 1))
    return either(
        shared(call(aten.expand.default, row, anything("sizes"))),
        shared(call(aten.expand_as.default, row, anything("like"))),
        shared(call(aten.repeat.default, row, [1, anything("steps"), 1])),
        shared(call(aten.repeat_interleave.self_int, row, anything("steps"), 1, output_size=anything())),
    )
