"""Mends what Triton 3.7.1's interpreter gets silently wrong in bfloat16. The only module that touches its insides.

The interpreter keeps bfloat16 as the uint16 of its bits and then computes on those integers. Four corrections, each
held by a test: (1) arithmetic and comparison of two bfloat16 tensors, (2) `tl.dot` of bfloat16, (3) conversion from
float32, which truncates instead of rounding to nearest even (and loses the carry when asked to round), and from other
types, (4) `tl.fma`. Also added: bfloat16 constants, which it lacks. Atomics on bfloat16 are refused: accumulate in
float32.

Not mended: it runs programs one after another, so it shows no races; a small out-of-bounds write lands silently in
neighbouring memory, so tests pad their buffers; float8 rounding.
"""

from __future__ import annotations

from typing import Any

CHECKED_VERSIONS = ("3.7.1",)

_installed = False


def install() -> None:
    """Patches the interpreter of this process. `TRITON_INTERPRET=1` must have been set before triton was imported."""
    global _installed
    if _installed:
        return
    import triton

    if not triton.knobs.runtime.interpret:
        raise RuntimeError("the interpreter is off: set TRITON_INTERPRET=1 before triton is imported")
    if triton.__version__ not in CHECKED_VERSIONS:
        raise RuntimeError(f"the corrections were checked on triton {CHECKED_VERSIONS}, not on {triton.__version__}")
    _patch()
    _installed = True


def widen(bits: Any) -> Any:
    """bfloat16 bits to float32 values."""
    import numpy as np

    return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)


def narrow(values: Any, truncate: bool = False) -> Any:
    """float32 values to bfloat16 bits, to nearest even unless `truncate`."""
    import numpy as np

    # ascontiguousarray turns a scalar into a vector of one: keep the caller's shape.
    values = np.asarray(values, dtype=np.float32)
    raw = np.ascontiguousarray(values).view(np.uint32).reshape(values.shape)
    carry = np.uint32(0) if truncate else ((raw >> 16) & np.uint32(1)) + np.uint32(0x7FFF)
    rounded = ((raw + carry) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def _patch() -> None:
    import numpy as np
    import triton.language as tl
    from triton._C.libtriton import ir
    from triton.runtime import interpreter

    handle = interpreter.TensorHandle
    builder = interpreter.InterpreterBuilder
    binary_op, create_dot, cast_impl = builder.binary_op, builder.create_dot, builder.cast_impl
    create_fp_to_fp, create_fma, create_atomic_rmw = (
        builder.create_fp_to_fp,
        builder.create_fma,
        builder.create_atomic_rmw,
    )

    def is_bf16(value: Any) -> bool:
        return bool(value.dtype.scalar == tl.bfloat16)

    def as_float32(value: Any) -> Any:
        return handle(widen(value.data), tl.float32) if is_bf16(value) else value

    def binary(self: Any, lhs: Any, rhs: Any, op: Any) -> Any:
        if not (is_bf16(lhs) and is_bf16(rhs)):
            return binary_op(self, lhs, rhs, op)
        output = op(widen(lhs.data), widen(rhs.data))
        return handle(output, tl.int1) if output.dtype == np.bool_ else handle(narrow(output), tl.bfloat16)

    def dot(self: Any, a: Any, b: Any, accumulator: Any, *rest: Any) -> Any:
        return create_dot(self, as_float32(a), as_float32(b), accumulator, *rest)

    def fma(self: Any, x: Any, y: Any, z: Any) -> Any:
        if not is_bf16(z):
            return create_fma(self, x, y, z)
        return handle(narrow(widen(x.data) * widen(y.data) + widen(z.data)), tl.bfloat16)

    def cast(self: Any, source: Any, to: Any) -> Any:
        if is_bf16(source) and to.scalar != tl.bfloat16:
            return cast_impl(self, as_float32(source), to)
        if not is_bf16(source) and to.scalar == tl.bfloat16:
            return handle(narrow(source.data), tl.bfloat16)
        return cast_impl(self, source, to)

    def float_to_float(self: Any, source: Any, to: Any, rounding: Any) -> Any:
        if source.dtype.scalar == tl.float32 and to.scalar == tl.bfloat16:
            return handle(narrow(source.data, truncate=rounding == ir.ROUNDING_MODE.RTZ), tl.bfloat16)
        return create_fp_to_fp(self, source, to, rounding)

    def atomic(self: Any, op: Any, pointer: Any, value: Any, *rest: Any) -> Any:
        if is_bf16(value):
            raise NotImplementedError("the interpreter adds bfloat16 atomics as integers: accumulate in float32")
        return create_atomic_rmw(self, op, pointer, value, *rest)

    # The conversions are class attributes that close over the class, so they find a patched `cast_impl` by themselves.
    builder.binary_op, builder.create_dot, builder.create_fma, builder.cast_impl = binary, dot, fma, cast
    builder.create_fp_to_fp, builder.create_atomic_rmw = float_to_float, atomic
    builder.get_bf16 = lambda self, value: handle(narrow([value]), tl.bfloat16)
