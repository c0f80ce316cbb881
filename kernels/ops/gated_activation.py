"""SwiGLU and GeGLU behind their two projections: the activation of one half times the other, in one pass.

    out = act(gate) * up,  act = silu, gelu (by erf) or gelu_tanh

Computed in float32 (float64 for float64 inputs) and rounded once: eager rounds act(gate) to the dtype first.

Source: Shazeer, "GLU Variants Improve Transformer", 2020 (arXiv 2002.05202).
Not for: operands that broadcast. The two projections stay GEMMs (see the pass `merge_parallel_linears`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels import rows
from kernels.inputs import meta, normal
from kernels.patterns import Found, anything, aten, call, mul, tensor
from kernels.spec import Configuration, Cost, Kernel, Launch, Sample, ceil_div, configuration, register, same_shape
from kernels.spellings import gelu_erf_by_hand, gelu_tanh_by_hand, silu

tl: Any = None  # triton.language: `jit` sets it

ACTIVATIONS = ("silu", "gelu", "gelu_tanh")


def _kernel(gate_ptr, up_ptr, out_ptr, count, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    gate = tl.load(gate_ptr + at, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + at, mask=mask, other=0.0).to(tl.float32)
    if ACTIVATION == 0:
        gate = gate * tl.sigmoid(gate)
    if ACTIVATION == 1:
        gate = 0.5 * gate * (1.0 + tl.erf(gate * 0.7071067811865476))
    if ACTIVATION == 2:
        gate = gate * tl.sigmoid(1.5957691216057308 * (gate + 0.044715 * gate * gate * gate))  # tanh(z) = 2 s(2 z) - 1
    tl.store(out_ptr + at, (gate * up).to(out_ptr.dtype.element_ty), mask=mask)


@register
class GatedActivation(Kernel):
    name = "gated_activation"
    schema = "(Tensor gate, Tensor up, str activation) -> Tensor"
    tolerances = rows.TOLERANCES
    breadth = 2
    patterns: ClassVar[dict[str, Any]] = {
        "SwiGLU": mul(silu(tensor("gate")), tensor("up")),
        "GeGLU": mul(call(aten.gelu.default, tensor("gate"), approximate=anything("approximate")), tensor("up")),
        "GeGLU, its tanh form by hand": mul(gelu_tanh_by_hand(tensor("gate")), tensor("up")),
        "GeGLU, its erf form by hand": mul(gelu_erf_by_hand(tensor("gate")), tensor("up")),
    }

    def arguments(self, found: Found) -> tuple[Any, ...] | str:
        through = {node.target for node in found.inside}
        by_hand = "tanh" if aten.tanh.default in through else "none" if aten.erf.default in through else None
        approximate = found.get("approximate", by_hand)
        kind = "silu" if approximate is None else "gelu_tanh" if approximate == "tanh" else "gelu"
        return found["gate"], found["up"], kind

    def reference(self, gate: Tensor, up: Tensor, activation: str) -> Tensor:
        wide = gate.to(torch.promote_types(gate.dtype, torch.float32))
        if activation == "silu":
            opened = F.silu(wide)
        else:
            opened = F.gelu(wide, approximate="tanh" if activation == "gelu_tanh" else "none")
        return (opened * up.to(wide.dtype)).to(gate.dtype)

    def fake(self, gate: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        return (torch.empty(gate.shape, dtype=gate.dtype, device=gate.device),)

    def configurations(self, *args: Any) -> tuple[Configuration, ...]:
        return (configuration(BLOCK=2048), configuration(BLOCK=1024), configuration(num_warps=8, BLOCK=4096))

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        gate, up, activation = args
        count = gate.numel()
        if not count:
            return []
        constants = {"ACTIVATION": ACTIVATIONS.index(activation), **configuration.constants}
        given = (gate.contiguous(), up.contiguous(), *outputs, count)
        grid = (ceil_div(count, configuration["BLOCK"]),)
        return [Launch(_kernel, grid, given, constants, configuration.num_warps, configuration.num_stages)]

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        return [
            Sample(f"{'x'.join(map(str, s))} {kind}", (normal(*s, dtype=dtype), normal(*s, dtype=dtype, seed=1), kind))
            for s, kind in zip(((5, 123), (1, 1), (2, 3, 64), (3, 2049)), (*ACTIVATIONS, "silu"), strict=True)
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        x = normal(7, 33, dtype=dtype)
        return [
            Sample("zeros", (torch.zeros_like(x), x, "silu")),
            *[Sample(f"large {kind}", (x * 100, x, kind)) for kind in ACTIVATIONS],
            Sample("transposed", (x.T, normal(33, 7, dtype=dtype), "silu")),
            Sample("nothing", (x[:0], x[:0], "silu")),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        return Sample("4096x11008 silu", (*[meta(4096, 11008, dtype=dtype)] * 2, "silu"))

    def check(self, gate: Tensor, up: Tensor, activation: str) -> str | None:
        if activation not in ACTIVATIONS:
            return f"there is no activation {activation!r} here"
        if gate.dtype not in rows.FLOATS:
            return f"the dtype is {gate.dtype}, not a floating point one"
        if up.dtype != gate.dtype:
            return f"the two halves have different dtypes: {gate.dtype} and {up.dtype}"
        return None if same_shape(gate, up) else "the two halves have different shapes"

    def cost(self, gate: Tensor, up: Tensor, activation: str) -> Cost:
        return Cost(
            bytes=3 * gate.numel() * gate.element_size(), flops=(5 if activation == "silu" else 9) * gate.numel()
        )
