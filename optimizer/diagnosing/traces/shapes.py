"""Shapes and dtypes of matrix products, from the inputs that the profiler recorded (`record_shapes=True`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

MAX_PRODUCTS = 20_000
# which inputs of the operation are multiplied
FACTORS = {"aten::mm": (0, 1), "aten::bmm": (0, 1), "aten::addmm": (1, 2), "aten::baddbmm": (1, 2)}


class Product(NamedTuple):
    """[batch, m, k] x [batch, k, n]."""

    batch: int
    m: int
    n: int
    k: int
    dtype: str

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.m * self.n * self.k


@dataclass
class Shapes:
    """`doubles`: calls of operations with a float64 tensor of at least one dimension, by name."""

    products: dict[Product, int] = field(default_factory=dict)
    doubles: dict[str, int] = field(default_factory=dict)

    def take(self, name: str, args: dict[str, Any], duration: float) -> None:
        types = args.get("Input type")
        if not isinstance(types, list):
            return
        dims = args["Input Dims"]
        if "double" in types and isinstance(dims, list) and len(self.doubles) < MAX_PRODUCTS:
            is_tensor = any(of_one == "double" and shape for of_one, shape in zip(types, dims, strict=False))
            self.doubles[name] = self.doubles.get(name, 0) + is_tensor
        factors = FACTORS.get(name)
        if factors is None:
            return
        product = _product(dims, types, *factors)
        if product is not None and (product in self.products or len(self.products) < MAX_PRODUCTS):
            self.products[product] = self.products.get(product, 0) + 1


def _product(dims: Any, types: list[Any], left: int, right: int) -> Product | None:
    if not isinstance(dims, list) or len(dims) <= right or len(types) <= left or not isinstance(types[left], str):
        return None
    one, other = dims[left], dims[right]
    if not (_is_shape(one) and _is_shape(other) and len(one) == len(other) and len(one) in (2, 3)):
        return None
    batch = one[0] if len(one) == 3 else 1
    return Product(batch, one[-2], other[-1], one[-1], types[left][:60])


def _is_shape(value: object) -> bool:
    return isinstance(value, list) and all(type(size) is int and 0 <= size < 1 << 31 for size in value)
